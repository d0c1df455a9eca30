//! What ARCHITECTURE.md promises about the repository itself.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The crates that a crate of the workspace is built with.
fn dependencies(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args([
            "tree", "--edges", "normal", "--prefix", "none", "--format", "{p}",
        ])
        .args(arguments)
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tree = String::from_utf8(output.stdout).expect("names are text");
    let name = |line: &str| line.split(' ').next().map(str::to_owned);
    tree.lines().filter_map(name).collect()
}

#[test]
fn the_engine_alone_needs_no_driver() {
    let with = dependencies(&["-p", "odm"]);
    assert!(with.contains("odm-engine") && with.contains("odm-derive"));
    assert!(!with.contains("mongodb"), "{with:?}");
}

#[test]
fn mongodb_alone_needs_no_engine() {
    let with = dependencies(&[
        "-p",
        "odm",
        "--no-default-features",
        "--features",
        "mongodb",
    ]);
    assert!(with.contains("mongodb"));
    assert!(
        !with.contains("odm-engine") && !with.contains("redb"),
        "{with:?}"
    );
}

#[test]
fn the_engine_and_the_derives_know_nothing_of_odm() {
    for package in ["odm-engine", "odm-derive"] {
        let with = dependencies(&["-p", package]);
        for above in ["odm", "mongodb", "tokio"] {
            assert!(!with.contains(above), "{package} depends on {above}");
        }
    }
}

/// `docs/internals/scopes.md` justifies each use of access that is not narrowed to the caller's session.
#[test]
fn every_use_of_unscoped_access_is_justified() {
    let page = fs::read_to_string(root().join("docs/internals/scopes.md")).expect("the page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let justified: BTreeSet<_> = rows
        .filter_map(|row| row.split_once('`'))
        .filter(|(file, _)| file.ends_with(".rs"))
        .map(|(file, _)| PathBuf::from(file))
        .collect();
    let source = root().join("odm/src");
    let mut used = BTreeSet::new();
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if fs::read_to_string(&path)
                .expect("code")
                .contains("to_everything(")
            {
                used.insert(path.strip_prefix(&source).expect("inside").to_owned());
            }
        }
    }
    assert_eq!(used, justified);
}

/// Each module may use those to the right of it: what is above does not appear below.
#[test]
fn arrows_point_one_way() {
    let arrows: &[(&str, &[&str], &[&str])] = &[
        // Operators of the engine never see the store, nor what plans and commits.
        (
            "odm-engine/src",
            &[
                "filter",
                "update",
                "projection",
                "sort",
                "path",
                "value",
                "change",
            ],
            &[
                "store",
                "plan",
                "command",
                "commit",
                "overlay",
                "database",
                "session",
                "transaction",
                "watch",
                "index",
                "catalog",
            ],
        ),
        (
            "odm-engine/src",
            &["store", "key"],
            &[
                "plan",
                "command",
                "database",
                "session",
                "transaction",
                "filter",
                "update",
            ],
        ),
        // A backend speaks BSON and knows no model.
        (
            "odm/src",
            &["backend"],
            &[
                "document", "schema", "field", "query", "relation", "action", "session",
                "database", "maintain",
            ],
        ),
        (
            "odm/src",
            &["field", "query", "document"],
            &["action", "session", "database", "maintain", "decode"],
        ),
        (
            "odm/src",
            &["stored", "overflow", "relation"],
            &["action", "session", "database", "maintain"],
        ),
    ];
    let mut against = Vec::new();
    for (crate_, below, above) in arrows {
        for module in *below {
            for file in sources(&root().join(crate_), module) {
                let code = fs::read_to_string(&file).expect("a source file");
                // Documentation and tests may point anywhere.
                let code = code.split("#[cfg(test)]").next().unwrap_or_default();
                // A module of a dependency can have the name of a module of this crate.
                let mut in_dependency = false;
                for line in code
                    .lines()
                    .filter(|line| !line.trim_start().starts_with("//"))
                {
                    if line.starts_with("use ") {
                        in_dependency = line.starts_with("use ::");
                    }
                    for module in *above {
                        let uses = line.contains(&format!("crate::{module}::"))
                            || !in_dependency && line.starts_with(&format!("    {module}::"));
                        if uses {
                            against.push(format!("{}: {}", file.display(), line.trim()));
                        }
                    }
                }
            }
        }
    }
    assert!(
        against.is_empty(),
        "against the arrows:\n{}",
        against.join("\n")
    );
}

/// `module.rs` and what is in `module/`.
fn sources(dir: &Path, module: &str) -> Vec<PathBuf> {
    let mut found = vec![dir.join(module).with_extension("rs")];
    let mut dirs = vec![dir.join(module)];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn every_path_in_the_documents_exists() {
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = fs::read_to_string(root().join(document)).expect(document);
        let mut section = String::new();
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("### ") {
                section = title.trim_matches('`').to_owned();
            }
            for path in line
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|code| is_path(code))
            {
                let near = ["", &section, "odm/src"];
                let there = near.iter().any(|dir| root().join(dir).join(path).exists());
                assert!(there, "{document} names `{path}`, which is not there");
            }
        }
    }
}

fn is_path(code: &str) -> bool {
    let named =
        code.ends_with(".rs") || code.ends_with(".md") || code.ends_with('/') && code.len() > 1;
    named && !code.contains([' ', '*', '<', ':']) && !code.starts_with("foo")
}
