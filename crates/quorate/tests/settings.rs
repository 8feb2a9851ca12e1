//! What an operator is told about a property file: each text against the exact words.

use quorate::settings::{self, MachineName, Settings, Unformatted};
use quorate_base::{ReplicaId, Span, Uuid};
use quorate_node::config::Cleanup;

const GOOD: &str = "\
node.id=1
process.roles=controller
log.dirs=/var/lib/quorate,/other
listeners=CONTROLLER://:9093
controller.quorum.voters=1@a:9093,2@b:9093,3@[::1]:9093
";

fn read(text: &str, overrides: &[&str]) -> Result<Settings, String> {
    let split =
        |pair: &&str| pair.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())).expect("k=v");
    let overrides: Vec<_> = overrides.iter().map(split).collect();
    settings::read(text, &overrides)
        .map_err(|problems| problems.iter().map(|problem| format!("{problem}\n")).collect())
}

/// The good file with `lines` after it gives exactly these problems.
fn check_problems(lines: &str, expect: &str) {
    let text = format!("{GOOD}{lines}");
    assert_eq!(read(&text, &[]).map(|settings| settings.notes), Err(expect.to_owned()), "{lines}");
}

/// The good file with `lines` after it is taken, with exactly these notes.
fn check_notes(lines: &str, expect: &[&str]) {
    let settings = read(&format!("{GOOD}{lines}"), &[]).expect(lines);
    assert_eq!(settings.notes, expect, "{lines}");
}

#[test]
fn a_minimal_file_has_kafkas_defaults() {
    let settings = read(GOOD, &[]).expect("good");
    assert_eq!(settings.notes, [""; 0]);
    let config = settings.config;
    assert_eq!(config.id, Some(ReplicaId(1)));
    assert_eq!(config.directory.to_str(), Some("/var/lib/quorate"));
    assert_eq!((config.bind.host.as_str(), config.bind.port), ("0.0.0.0", 9093));
    assert_eq!(
        config.advertised.map(|at| at.host).as_deref(),
        Some("a"),
        "what the voters call it"
    );
    assert_eq!(config.voters[2].at.host, "::1");
    assert_eq!(config.listener, "CONTROLLER");
    assert_eq!(config.http, None);
    let expect = quorate_node::config::Config::new(None, "".into(), Vec::new(), config.bind);
    assert_eq!((config.topic, config.topic_id), (expect.topic, expect.topic_id));
    assert_eq!(config.election_timeout, expect.election_timeout);
    assert_eq!(config.fetch_timeout, expect.fetch_timeout);
    assert_eq!(config.election_backoff_max, expect.election_backoff_max);
    assert_eq!(config.request_timeout, expect.request_timeout);
    assert_eq!(config.retry_backoff, expect.retry_backoff);
    assert_eq!(config.fetch_max_bytes, expect.fetch_max_bytes);
    assert_eq!(config.snapshot_max_bytes, expect.snapshot_max_bytes);
    assert_eq!(config.segment_bytes, expect.segment_bytes);
    assert_eq!(config.segment_ms, expect.segment_ms);
    assert_eq!(config.snapshot_bytes, expect.snapshot_bytes);
    assert_eq!(config.snapshot_interval, expect.snapshot_interval);
    assert_eq!(config.retention_bytes, expect.retention_bytes);
    assert_eq!(config.retention_ms, expect.retention_ms);
    assert_eq!(config.cleanup, expect.cleanup);
    assert_eq!(config.request_max_bytes, expect.request_max_bytes);
    assert_eq!(config.uncommitted_max_bytes, expect.uncommitted_max_bytes);
    assert_eq!(config.tail_max_bytes, expect.tail_max_bytes);
    assert_eq!(config.reserve_bytes, expect.reserve_bytes);
}

#[test]
fn every_setting_reaches_the_node() {
    let text = format!(
        "{GOOD}metadata.log.dir = /meta\nadvertised.listeners=CONTROLLER://x:1\n\
         controller.quorum.election.timeout.ms=1011\ncontroller.quorum.fetch.timeout.ms=1012\n\
         controller.quorum.election.backoff.max.ms=13\ncontroller.quorum.request.timeout.ms=1014\n\
         controller.quorum.retry.backoff.ms=15\ncontroller.quorum.fetch.max.bytes=16\n\
         controller.quorum.fetch.snapshot.max.bytes=22\n\
         metadata.log.segment.bytes=8388609\nmetadata.log.segment.ms=1017\n\
         metadata.log.max.record.bytes.between.snapshots=19\n\
         metadata.log.max.snapshot.interval.ms=20\nmetadata.max.retention.bytes=21\n\
         metadata.max.retention.ms=-1\nquorate.cleanup.policy=delete\n\
         socket.request.max.bytes=8388608\n\
         quorate.http.listen=127.0.0.1:0\nquorate.uncommitted.max.bytes=1048576\n\
         quorate.tail.max.bytes=1048577\ncontroller.quorum.bootstrap.servers=b:1,c:2\n\
         quorate.topic=__raft_performance_test\nquorate.topic.id=AAAAAAAAAAAAAAAAAAAAAg\n\
         quorate.reserve.bytes=8388610\n"
    );
    let config = read(&text, &["node.id=3"]).expect("good").config;
    assert_eq!(config.id, Some(ReplicaId(3)), "an override wins");
    assert_eq!(config.directory.to_str(), Some("/meta"));
    assert_eq!(config.advertised.map(|at| at.port), Some(1));
    assert_eq!(config.election_timeout, Span::ms(1_011));
    assert_eq!(config.fetch_timeout, Span::ms(1_012));
    assert_eq!(config.election_backoff_max, Span::ms(13));
    assert_eq!(config.request_timeout, Span::ms(1_014));
    assert_eq!(config.retry_backoff, Span::ms(15));
    assert_eq!((config.fetch_max_bytes, config.snapshot_max_bytes), (16, 22));
    assert_eq!(config.segment_bytes, 8_388_609);
    assert_eq!(config.segment_ms, 1_017);
    assert_eq!(config.snapshot_bytes, 19);
    assert_eq!(config.snapshot_interval, Span::ms(20));
    assert_eq!((config.retention_bytes, config.retention_ms), (Some(21), None));
    assert_eq!(config.cleanup, Cleanup::Delete);
    assert_eq!(config.request_max_bytes, 8_388_608);
    assert_eq!(config.http.map(|at| at.host).as_deref(), Some("127.0.0.1"));
    assert_eq!(config.uncommitted_max_bytes, 1_048_576);
    assert_eq!(config.tail_max_bytes, 1_048_577);
    assert_eq!(config.reserve_bytes, 8_388_610);
    assert_eq!(config.bootstrap.len(), 2);
    assert_eq!(config.topic, "__raft_performance_test");
    assert_eq!(config.topic_id, Uuid(2u128.to_be_bytes()));
}

#[test]
fn a_limit_can_be_none_and_nothing_else_below_zero() {
    let line = "metadata.max.retention.bytes=-2";
    let words = "must be a whole number from 0 to 9223372036854775807, or -1 for no limit";
    check_problems(&format!("{line}\n"), &format!("line 6: {line}: {words}\n"));
    let line = "quorate.cleanup.policy=delete,compact";
    let words = "must be one of delete, compact";
    check_problems(&format!("{line}\n"), &format!("line 6: {line}: {words}\n"));
}

#[test]
fn a_reserve_is_none_or_large_enough() {
    for bytes in [1, (8 << 20) - 1] {
        let line = format!("quorate.reserve.bytes={bytes}");
        check_problems(
            &format!("{line}\n"),
            &format!("line 6: {line}: must be 0, or 8388608 or more\n"),
        );
    }
    for bytes in [0, 8 << 20] {
        let text = format!("{GOOD}quorate.reserve.bytes={bytes}\n");
        assert_eq!(read(&text, &[]).expect("good").config.reserve_bytes, bytes);
    }
}

/// Each of these would start, say nothing, and be of no use.
#[test]
fn values_that_leave_a_node_useless_are_refused_with_what_to_do() {
    let most = "must be 3600000 or less, in milliseconds: for as long";
    let least = "must be 50 or more, in milliseconds: with less";
    for (line, words) in [
        ("socket.request.max.bytes=100", "must be 8388608 or more: nodes pass on what clients write in requests of up to that length, and a longer request than this closes its connection, so that less cuts the node off; without this line it is 104857600".to_owned()),
        ("controller.quorum.election.timeout.ms=1", format!("{least} an election is over before votes are stored and counted, and nobody leads for long; without this line it is 1000")),
        ("controller.quorum.fetch.timeout.ms=49", format!("{least} a leader is taken for dead while it stores what it answers, and nobody leads for long; without this line it is 2000")),
        ("controller.quorum.request.timeout.ms=1", format!("{least} an answer counts as lost while it is on its way, and nobody leads for long; without this line it is 2000")),
        ("controller.quorum.fetch.timeout.ms=2000000000", format!("{most} a leader that died is not replaced; without this line it is 2000")),
        ("controller.quorum.retry.backoff.ms=20000000", format!("{most} a node that was down for a moment is not asked again; without this line it is 20")),
        ("controller.quorum.retry.backoff.ms=0", "must be 1 or more: with 0 a node that is down is asked without a pause, and there is time for nothing else; without this line it is 20".to_owned()),
        ("metadata.log.segment.ms=1", "must be 1000 or more, in milliseconds: with less nearly every write begins a file, until the file system takes no more of them; without this line it is 604800000".to_owned()),
        ("quorate.http.listen=127.0.0.1:9093", "has port 9093, at which this node listens for the other nodes: only one of the two can be opened; take another port for HTTP".to_owned()),
    ] {
        check_problems(&format!("{line}\n"), &format!("line 6: {line}: {words}\n"));
    }
    check_notes(
        "socket.request.max.bytes=8388608\ncontroller.quorum.fetch.timeout.ms=50\n\
         controller.quorum.request.timeout.ms=3600000\ncontroller.quorum.retry.backoff.ms=1\n\
         metadata.log.segment.ms=1000\nquorate.http.listen=127.0.0.1:9094\n\
         controller.quorum.fetch.snapshot.max.bytes=16384\n",
        &[],
    );
    check_notes(
        "controller.quorum.fetch.snapshot.max.bytes=100\n",
        &[
            "controller.quorum.fetch.snapshot.max.bytes=100: a node that copies a snapshot asks its leader 10737419 times for each gigabyte, one after the other, and may never catch up with those that write; without that line it is 1048576",
        ],
    );
}

#[test]
fn a_topic_can_name_a_folder_and_its_id_is_kafkas() {
    for topic in ["..", ".", "a/b", "über", "with blank"] {
        let line = format!("quorate.topic={topic}");
        let words = "must be 1 to 249 letters, digits, '.', '_' and '-', and not just dots";
        check_problems(&format!("{line}\n"), &format!("line 6: {line}: {words}\n"));
    }
    for id in ["2", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB"] {
        let line = format!("quorate.topic.id={id}");
        let words = "must be a topic id: 22 letters, digits, '-' and '_', such as AAAAAAAAAAAAAAAAAAAAAQ; not zero";
        check_problems(&format!("{line}\n"), &format!("line 6: {line}: {words}\n"));
    }
}

#[test]
fn an_empty_file_is_told_all_that_it_needs() {
    let expect = "\
missing: node.id: is needed: a whole number from 0 to 2147483647
missing: log.dirs: is needed: the directory where this node keeps its data
missing: listeners: is needed: where this node listens, such as CONTROLLER://127.0.0.1:9093
missing: controller.quorum.voters: is needed: all nodes that vote, such as 1@a:9093,2@b:9093,3@c:9093; or, where the log names them, controller.quorum.bootstrap.servers=a:9093,b:9093; or, to start without a format, quorate.bootstrap=true on the first node and quorate.join=a:9093 on the others
";
    assert_eq!(read("# nothing\n", &[]).map(|settings| settings.notes), Err(expect.to_owned()));
}

#[test]
fn all_problems_are_named_at_once_with_their_lines() {
    check_problems(
        "node.id=-1\n\nsocket.request.max.bytes=many\nnode.di=2\nprocess.roles=broker,controller\nquorate.machine=sql\n",
        "\
line 6: node.id=-1: must be a whole number from 0 to 2147483647
line 8: socket.request.max.bytes=many: must be a whole number from 1 to 2147483647
line 9: node.di=2: there is no such setting; did you mean node.id?
line 10: process.roles=broker,controller: must be controller: a broker is Kafka's own process; run it with a file of its own
line 11: quorate.machine=sql: must be one of kv, kafka
",
    );
}

#[test]
fn an_override_is_named_as_one() {
    assert_eq!(
        read(GOOD, &["node.id=x", "colour=red"]).map(|settings| settings.notes),
        Err("\
--override: colour=red: there is no such setting; `quorate run --help-config` lists them all
--override: node.id=x: must be a whole number from 0 to 2147483647
"
        .to_owned())
    );
}

#[test]
fn voters_must_be_different_and_reachable() {
    check_problems(
        "controller.quorum.voters=1@a:1,1@b:1,2@a:1,3@0.0.0.0:1,4@:1,5@e:0,six@f:1,7\n",
        "\
line 6: controller.quorum.voters=1@a:1,1@b:1,2@a:1,3@0.0.0.0:1,4@:1,5@e:0,six@f:1,7: has two voters with the id 1
line 6: controller.quorum.voters=1@a:1,1@b:1,2@a:1,3@0.0.0.0:1,4@:1,5@e:0,six@f:1,7: has the voters 1 and 2 at one address
line 6: controller.quorum.voters=1@a:1,1@b:1,2@a:1,3@0.0.0.0:1,4@:1,5@e:0,six@f:1,7: '3@0.0.0.0:1' names every interface of the machine, which others cannot connect to: write the host name or address that they reach it by
line 6: controller.quorum.voters=1@a:1,1@b:1,2@a:1,3@0.0.0.0:1,4@:1,5@e:0,six@f:1,7: '4@:1' names every interface of the machine, which others cannot connect to: write the host name or address that they reach it by
line 6: controller.quorum.voters=1@a:1,1@b:1,2@a:1,3@0.0.0.0:1,4@:1,5@e:0,six@f:1,7: '5@e:0' has port 0, which others cannot connect to: write the port it listens on
line 6: controller.quorum.voters=1@a:1,1@b:1,2@a:1,3@0.0.0.0:1,4@:1,5@e:0,six@f:1,7: 'six@f:1' must be ID@HOST:PORT
line 6: controller.quorum.voters=1@a:1,1@b:1,2@a:1,3@0.0.0.0:1,4@:1,5@e:0,six@f:1,7: '7' must be ID@HOST:PORT
",
    );
}

#[test]
fn the_controller_listener_must_be_there_and_in_the_clear() {
    check_problems(
        "listeners=PLAINTEXT://:9092\n",
        "line 6: listeners=PLAINTEXT://:9092: must hold the listener CONTROLLER, the first of controller.listener.names\n",
    );
    check_problems(
        "listeners=CONTROLLER:9093\n",
        "line 6: listeners=CONTROLLER:9093: 'CONTROLLER:9093' must be NAME://HOST:PORT\n",
    );
    check_problems(
        "listener.security.protocol.map=CONTROLLER:SSL\n",
        "line 6: listener.security.protocol.map=CONTROLLER:SSL: CONTROLLER must be PLAINTEXT: SSL does not work yet\n",
    );
    check_problems(
        "advertised.listeners=CONTROLLER://0.0.0.0:1\n",
        "line 6: advertised.listeners=CONTROLLER://0.0.0.0:1: 'CONTROLLER' names every interface of the machine, which others cannot connect to: write the host name or address that they reach it by\n",
    );
    check_problems(
        "quorate.http.listen=8080\n",
        "line 6: quorate.http.listen=8080: must be HOST:PORT\n",
    );
}

#[test]
fn a_broken_escape_is_no_property_file() {
    check_problems("a=\\u12\n", "line 6: four hexadecimal digits must follow \\u\n");
}

#[test]
fn what_works_but_deserves_a_word() {
    check_notes("", &[]);
    check_notes(
        "num.io.threads=8\nssl.keystore.location=/k\nlistener.name.controller.ssl.key.password=x\n",
        &[
            "Kafka's settings that Quorate does not use, ignored: listener.name.controller.ssl.key.password, num.io.threads, ssl.keystore.location",
        ],
    );
    check_notes(
        "authorizer.class.name=A\n",
        &[
            "Kafka's settings that Quorate does not use, ignored: authorizer.class.name",
            "authorizer.class.name is NOT enforced: this node lets everyone in who can connect",
        ],
    );
    check_notes(
        "node.id=9\n",
        &[
            "node.id is set at line 1 and again at line 6; the last one counts",
            "node 9 is not among the voters: it will be an OBSERVER, which copies the log and never votes or leads; if it shall vote, correct node.id or controller.quorum.voters",
        ],
    );
    check_notes(
        "controller.quorum.voters=1@a:9094,2@b:9093\n",
        &[
            "controller.quorum.voters is set at line 5 and again at line 6; the last one counts",
            "the voters say that node 1 listens on port 9094, its listener says 9093: right only if something between them translates",
            "2 voters survive the loss of 0, as 1 would, and need one more to agree: use an odd number",
        ],
    );
}

#[test]
fn a_node_beside_kafkas_controllers_leaves_leading_to_them_and_trims_its_log() {
    let settings = read(&format!("{GOOD}quorate.machine=kafka\n"), &[]).expect("good");
    let config = settings.config;
    assert_eq!(settings.machine, MachineName::Kafka);
    assert_eq!((config.never_lead, config.cleanup), (true, Cleanup::Delete));
    let plain = read(GOOD, &[]).expect("good");
    assert_eq!(plain.machine, MachineName::Kv);
    assert_eq!((plain.config.never_lead, plain.config.cleanup), (false, Cleanup::Compact));
    check_notes(
        "quorate.machine=kafka\nquorate.election.never.lead=true\nquorate.cleanup.policy=delete\n",
        &[],
    );
    check_problems(
        "quorate.machine=kafka\nquorate.election.never.lead=false\nquorate.cleanup.policy=compact\n",
        "line 7: quorate.election.never.lead=false: must be true with quorate.machine=kafka: this node cannot act as the active controller of a Kafka cluster yet, so another voter has to lead\n\
         line 8: quorate.cleanup.policy=compact: must be delete with quorate.machine=kafka: Kafka's controllers trim their logs, and so do all nodes beside them\n",
    );
    check_problems(
        "quorate.machine=etcd\n",
        "line 6: quorate.machine=etcd: must be one of kv, kafka\n",
    );
}

/// A file that says nothing of who votes.
const ALONE: &str = "\
node.id=1
log.dirs=/var/lib/quorate
listeners=CONTROLLER://a:9093
";

#[test]
fn a_node_begins_a_cluster_or_joins_one_and_then_needs_no_voters() {
    let begins = read(&format!("{ALONE}quorate.bootstrap=true\n"), &[]).expect("good");
    assert_eq!((begins.unformatted, begins.config.bootstrap.len()), (Unformatted::Begin, 0));
    let joins = read(&format!("{ALONE}quorate.join=b:1,c:2\n"), &[]).expect("good");
    assert_eq!(joins.unformatted, Unformatted::Join(joins.config.bootstrap.clone()));
    assert_eq!(joins.config.bootstrap.len(), 2, "they stand in for the bootstrap servers");
    let both = "quorate.join=b:1,c:2\ncontroller.quorum.bootstrap.servers=d:3\n";
    let both = read(&format!("{ALONE}{both}"), &[]).expect("good");
    assert_eq!(both.config.bootstrap[0].host, "d", "those that are given come first");
    assert_eq!(both.config.bootstrap.len(), 1);
    let kafka = "quorate.machine=kafka\nquorate.join=b:1\n";
    read(&format!("{ALONE}{kafka}"), &[]).expect("a node may join a Kafka cluster");
    let neither = read(&format!("{GOOD}quorate.bootstrap=false\n"), &[]).expect("good");
    assert_eq!(neither.unformatted, Unformatted::Refuse);
}

#[test]
fn what_nobody_can_mean_by_begin_and_join_is_refused() {
    let wrong = |lines: &str, words: &[&str]| {
        let said = read(&format!("{ALONE}{lines}"), &[]).expect_err("refused");
        words.iter().for_each(|words| assert!(said.contains(words), "{lines}: {said}"));
        assert_eq!(said.lines().count(), 1, "{said}");
    };
    let all = "quorate.bootstrap=true\nquorate.join=b:1\n";
    wrong(all, &["line 4: quorate.bootstrap=true", "a node is one of the two"]);
    let voters = "controller.quorum.voters=1@a:9093\n";
    let twice = "names them in the file: take one of the two out";
    wrong(&format!("quorate.join=b:1\n{voters}"), &["line 4: quorate.join=b:1: ", twice]);
    wrong(&format!("quorate.bootstrap=true\n{voters}"), &["quorate.bootstrap=true: ", twice]);
    let kafka = "quorate.bootstrap=true\nquorate.machine=kafka\n";
    wrong(kafka, &["cannot act as the active controller", "quorate.join"]);
    wrong("quorate.join=0.0.0.0:1\n", &["line 4: quorate.join=0.0.0.0:1: ", "every interface"]);
    wrong("quorate.bootstrap=yes\n", &["quorate.bootstrap=yes: must be one of false, true"]);
}
