//! The rules of the repository, run on the repository.

use xtask::{RULES, Tree};

/// Runs one rule; a failure lists every place that breaks it.
fn obeys(name: &str) {
    let tree = Tree::read().expect("the repository can be read");
    assert!(tree.files.len() > 50, "only {} files were found", tree.files.len());
    let (_, check) = RULES.iter().find(|(rule, _)| *rule == name).expect("a rule of this name");
    let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{} findings\n{}\n", found.len(), found.join("\n"));
}

#[test]
fn crates_depend_along_the_arrows() {
    obeys("arrows");
}

#[test]
fn pure_crates_are_pure() {
    obeys("purity");
}

#[test]
fn files_have_the_shape_that_readers_expect() {
    obeys("shape");
}

#[test]
fn protocol_rules_and_code_cite_each_other() {
    obeys("citations");
}

#[test]
fn links_lead_somewhere() {
    obeys("links");
}

#[test]
fn no_text_names_a_place_on_one_machine() {
    obeys("places");
}

#[test]
fn the_project_builds_the_same_everywhere() {
    obeys("project");
}
