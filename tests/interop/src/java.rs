//! Apache Kafka's programs: fetched once by Maven into a cache, run as `java -cp … CLASS`.

use crate::scenario::{Failure, need};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A release of Apache Kafka.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    version: &'static str,
    /// A logger of its time, so that errors are printed: group, artifact, version.
    logger: (&'static str, &'static str, &'static str),
}

/// The release whose dialect we speak.
pub const NEWEST: Release = Release {
    version: "4.3.1",
    logger: ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
};

/// The first minor release of the same major one, which others still run.
pub const ELDER: Release = Release { version: "4.0.2", ..NEWEST };

/// The oldest release that we talk to.
pub const OLDEST: Release =
    Release { version: "3.9.1", logger: ("org.slf4j", "slf4j-reload4j", "1.7.36") };

/// A fetched release.
pub struct Kafka {
    libraries: PathBuf,
}

/// A program that goes on; killed when this is dropped.
pub struct Running(Child);

impl Running {
    /// Starts it; what it prints goes into the file.
    pub fn start(command: &mut Command, stdin: Stdio, log: &Path) -> Result<Running, Failure> {
        let log = fs::File::create(log)?;
        let command = command.stdin(stdin).stdout(log.try_clone()?).stderr(log);
        Ok(Running(command.spawn()?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended by itself refuses; either way it is gone after the wait.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The settings of a tool that is asked again and again. A controller that is asked before it knows
/// its metadata.version answers that it cannot be asked, and the tool then waits for another one,
/// for a minute if nobody says otherwise.
pub fn soon_given_up(directory: &Path) -> Result<String, Failure> {
    let file = directory.join("soon-given-up.properties");
    std::fs::write(&file, "default.api.timeout.ms=8000\nrequest.timeout.ms=4000\n")?;
    Ok(file.display().to_string())
}

impl Kafka {
    /// Finds the release in the cache or fetches it.
    pub fn fetch(release: Release, cache: &Path) -> Result<Kafka, Failure> {
        need("java", "-version", "a Java runtime, 17 or later")?;
        let version = release.version;
        let home = cache.join(format!("kafka-{version}"));
        let (libraries, complete) = (home.join("libs"), home.join("complete"));
        // What is fetched changes with this program, and then it is fetched again.
        let wanted = project(release);
        let same = fs::read_to_string(home.join("pom.xml")).is_ok_and(|found| found == wanted);
        if !complete.exists() || !same {
            need("mvn", "--version", "Maven, which fetches Kafka's jars")?;
            println!("fetching Apache Kafka {version} into {}", home.display());
            fs::create_dir_all(&home)?;
            fs::write(home.join("pom.xml"), wanted)?;
            let goal = format!("-DoutputDirectory={}", libraries.display());
            let arguments = ["-q", "-B", "dependency:copy-dependencies", &goal];
            let output = Command::new("mvn").args(arguments).current_dir(&home).output()?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                return Err(Failure(format!("Maven cannot fetch Kafka {version}:\n{said}")));
            }
            fs::write(complete, version)?;
        }
        Ok(Kafka { libraries })
    }

    /// Runs a program to its end and returns what it printed.
    pub fn run(&self, class: &str, arguments: &[&str]) -> Result<String, Failure> {
        self.answer(class, arguments, "")
    }

    /// [`Kafka::run`] for a program that reads these lines.
    pub fn answer(&self, class: &str, arguments: &[&str], input: &str) -> Result<String, Failure> {
        let mut command = self.command(class, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn()?;
        if let Some(mut stdin) = running.stdin.take() {
            // Few lines: they fit into the pipe, whether the program reads them or not.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = running.wait_with_output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(printed);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(Failure(format!("{class} {} failed:\n{printed}{errors}", arguments.join(" "))))
    }
}

impl Kafka {
    fn command(&self, class: &str, arguments: &[&str]) -> Command {
        let classes = format!("{}/*", self.libraries.display());
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "-cp", &classes, class]).args(arguments);
        command
    }

    /// Starts a program; what it prints goes into the file.
    pub fn start(&self, class: &str, arguments: &[&str], log: &Path) -> Result<Running, Failure> {
        Running::start(&mut self.command(class, arguments), Stdio::null(), log)
    }
}

/// A project that depends on the tools with all they need, and on the logger.
fn project(Release { version, logger }: Release) -> String {
    let kafka = "org.apache.kafka";
    let artifacts = [
        (kafka, "kafka_2.13", version),
        (kafka, "kafka-tools", version),
        (kafka, "kafka-shell", version),
        logger,
    ];
    let dependency = |(group, artifact, version): (&str, &str, &str)| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>\n"
        )
    };
    let dependencies: String = artifacts.into_iter().map(dependency).collect();
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n<modelVersion>4.0.0</modelVersion>\n\
         <groupId>quorate</groupId><artifactId>interop</artifactId><version>1</version>\n\
         <dependencies>\n{dependencies}</dependencies>\n</project>\n"
    )
}
