//! Apache Kafka's programs: fetched once by Maven into a cache, run as `java -cp … CLASS`.

use crate::scenario::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release that judges us.
const VERSION: &str = "4.3.1";

/// What Maven is to fetch: the tools with all they need, and a logger so that errors are printed.
const ARTIFACTS: &[(&str, &str, &str)] = &[
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
];

/// A fetched release.
pub struct Kafka {
    libraries: PathBuf,
}

impl Kafka {
    /// Finds the release in the cache or fetches it.
    pub fn fetch(cache: &Path) -> Result<Kafka, Failure> {
        need("java", "-version", "a Java runtime, 17 or later")?;
        let home = cache.join(format!("kafka-{VERSION}"));
        let (libraries, complete) = (home.join("libs"), home.join("complete"));
        if !complete.exists() {
            need("mvn", "--version", "Maven, which fetches Kafka's jars")?;
            println!("fetching Apache Kafka {VERSION} into {}", home.display());
            fs::create_dir_all(&home)?;
            fs::write(home.join("pom.xml"), project())?;
            let goal = format!("-DoutputDirectory={}", libraries.display());
            let arguments = ["-q", "-B", "dependency:copy-dependencies", &goal];
            let output = Command::new("mvn").args(arguments).current_dir(&home).output()?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                return Err(Failure(format!("Maven cannot fetch Kafka {VERSION}:\n{said}")));
            }
            fs::write(complete, VERSION)?;
        }
        Ok(Kafka { libraries })
    }

    /// Runs a program to its end and returns what it printed.
    pub fn run(&self, class: &str, arguments: &[&str]) -> Result<String, Failure> {
        let classes = format!("{}/*", self.libraries.display());
        let output = Command::new("java")
            .args(["-Xmx256m", "-cp", &classes, class])
            .args(arguments)
            .output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(printed);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(Failure(format!("{class} {} failed:\n{printed}{errors}", arguments.join(" "))))
    }
}

fn need(program: &str, probe: &str, what: &str) -> Result<(), Failure> {
    match Command::new(program).arg(probe).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) | Err(_) => {
            Err(Failure(format!("`{program}` is missing: install {what}, and run this again")))
        }
    }
}

/// A project that depends on the artifacts and does nothing else.
fn project() -> String {
    let dependency = |(group, artifact, version): &(&str, &str, &str)| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>\n"
        )
    };
    let dependencies: String = ARTIFACTS.iter().map(dependency).collect();
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n<modelVersion>4.0.0</modelVersion>\n\
         <groupId>quorate</groupId><artifactId>interop</artifactId><version>1</version>\n\
         <dependencies>\n{dependencies}</dependencies>\n</project>\n"
    )
}
