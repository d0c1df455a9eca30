//! Tests of the repository itself: dependencies, documents, and names in the source.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the packages in the dependency tree that `cargo tree` prints for the arguments.
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
fn lower_crates_do_not_depend_on_odm() {
    for package in ["odm-engine", "odm-derive", "odm-wire"] {
        let with = dependencies(&["-p", package]);
        let is_synchronous = ["odm-engine", "odm-derive"].contains(&package);
        for above in ["odm", "mongodb", "tokio"] {
            if above != "tokio" || is_synchronous {
                assert!(!with.contains(above), "{package} depends on {above}");
            }
        }
    }
}

/// A program for files can do without the driver.
#[test]
fn the_command_line_needs_a_feature_for_the_driver() {
    let without = dependencies(&["-p", "odm-cli", "--no-default-features"]);
    assert!(!without.contains("mongodb"));
    assert!(dependencies(&["-p", "odm-cli"]).contains("mongodb"));
}

/// `docs/internals/scopes.md` justifies each use of access that is not limited to the caller's session.
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
    for path in files_in(&source, "rs") {
        let code = fs::read_to_string(&path).expect("code");
        if code.contains("with_full_visibility(") {
            used.insert(path.strip_prefix(&source).expect("inside").to_owned());
        }
    }
    assert_eq!(used, justified);
}

/// Only `write/footprint.rs` reads update operators. A stage with a reader of its own would miss a new operator.
#[test]
fn one_module_reads_update_operators() {
    const OPERATORS: [&str; 15] = [
        "set",
        "setOnInsert",
        "unset",
        "rename",
        "inc",
        "mul",
        "min",
        "max",
        "bit",
        "currentDate",
        "push",
        "addToSet",
        "pull",
        "pullAll",
        "pop",
    ];
    // A match arm, a comparison, or a lookup in a document. Code that builds an update has none of these.
    let reads = |code: &str, name: &str| {
        let literal = format!("\"${name}\"");
        let patterns = [
            format!("{literal} =>"),
            format!("{literal} |"),
            format!("== {literal}"),
            format!("!= {literal}"),
            format!("get({literal}"),
            format!("get_document({literal}"),
            format!("get_document_mut({literal}"),
            format!("contains_key({literal}"),
            format!("Some({literal}"),
            format!(", {literal})"),
        ];
        patterns.into_iter().find(|pattern| code.contains(pattern))
    };
    let source = root().join("odm/src");
    let allowed = ["write/footprint.rs", "write/rollups/transactional.rs"];
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for path in files_in(&source, "rs") {
        let file = path.strip_prefix(&source).expect("inside").to_owned();
        let code = fs::read_to_string(&path).expect("code");
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        let pattern = OPERATORS.iter().find_map(|name| reads(code, name));
        if file.starts_with("backend") {
            continue;
        }
        if let Some(pattern) = pattern {
            match allowed.iter().find(|allowed| file == Path::new(allowed)) {
                Some(allowed) => drop(seen.insert(*allowed)),
                None => found.push(format!("{}: {pattern}", file.display())),
            }
        }
    }
    assert!(found.is_empty(), "use `write::footprint`: {found:#?}");
    // `transactional.rs` compares an update that the rollups have just built.
    assert_eq!(seen, BTreeSet::from(allowed));
}

/// Modules of a lower layer do not use modules of a higher layer.
#[test]
fn modules_use_only_lower_layers() {
    let arrows: &[(&str, &[&str], &[&str])] = &[
        // Operators of the engine do not use the store, the planner or the commit.
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
        // A backend handles BSON, and uses no model.
        (
            "odm/src",
            &["backend"],
            &[
                "model::document",
                "schema",
                "language",
                "relation",
                "action",
                "session::Session",
                "session::database",
                "session::transaction",
                "write",
                "pending",
            ],
        ),
        (
            "odm/src",
            &["language/field", "language/query", "model/document"],
            &[
                "action",
                "session::Session",
                "session::database",
                "session::transaction",
                "write",
            ],
        ),
        (
            "odm/src",
            &["model/stored", "model/ids", "overflow", "relation"],
            &[
                "action",
                "session::Session",
                "session::database",
                "session::transaction",
                "write",
            ],
        ),
        (
            "odm/src",
            &["language/field", "language/query"],
            &["model::decode"],
        ),
        // A write and its follow-up work know nothing of the typed actions.
        (
            "odm/src",
            &["write", "pending"],
            &["action", "session::Session", "session::database"],
        ),
    ];
    let mut against = Vec::new();
    for (crate_, below, above) in arrows {
        for module in *below {
            against.extend(uses_of(crate_, module, above));
        }
    }
    // The kinds of derived data do not know each other. Pending work knows the records and not the kinds.
    let kinds = derived_data_kinds();
    for kind in &kinds {
        let others = kinds.iter().filter(|other| *other != kind);
        let others: Vec<_> = others.map(|other| format!("write::{other}")).collect();
        against.extend(uses_of("odm/src", &format!("write/{kind}"), &others));
    }
    let kinds: Vec<_> = kinds.iter().map(|kind| format!("write::{kind}")).collect();
    against.extend(uses_of("odm/src", "pending", &kinds));
    assert!(
        against.is_empty(),
        "against the arrows:\n{}",
        against.join("\n")
    );
}

/// Returns the folders of the write path: one for each kind of derived data.
fn derived_data_kinds() -> Vec<String> {
    let entries = fs::read_dir(root().join("odm/src/write")).expect("the write path");
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let kinds: Vec<_> = folders
        .map(|folder| folder.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(kinds.len() >= 5, "{kinds:?}");
    kinds
}

/// Returns the uses of the modules `above` in a module. Documentation and tests may use any module.
fn uses_of(crate_: &str, module: &str, above: &[impl AsRef<str>]) -> Vec<String> {
    let mut uses = Vec::new();
    for file in module_files(&root().join(crate_), module) {
        let code = fs::read_to_string(&file).expect("a source file");
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        for used in used_paths(code, module) {
            let mut above = above.iter();
            if above.any(|above| is_at_or_below(&used, above.as_ref())) {
                uses.push(format!("{}: {used}", file.display()));
            }
        }
    }
    uses
}

/// Whether a path is the path of a module or of an item in the module.
fn is_at_or_below(path: &str, module: &str) -> bool {
    let rest = path.strip_prefix(module);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns the paths that a source file uses, without `crate::`: from imports and from the code. A path that starts with `super` in
/// a file directly below `write` counts as a path of `write`.
fn used_paths(code: &str, module: &str) -> Vec<String> {
    let is_kind = module.starts_with("write/");
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut paths = Vec::new();
    let mut rest = code.as_str();
    while let Some(start) = rest.find("use ") {
        let is_statement = rest[..start].ends_with(['\n', ' ']) || start == 0;
        rest = &rest[start + 4..];
        let Some(end) = rest.find(';').filter(|_| is_statement) else {
            continue;
        };
        expand_imports(&rest[..end], "", &mut paths);
        rest = &rest[end..];
    }
    // A path in the code.
    let inline = code.split("crate::").skip(1).map(|path| {
        let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let end = path.find(|c| !is_path(c)).unwrap_or(path.len());
        format!("crate::{}", path[..end].trim_end_matches("::"))
    });
    paths.extend(inline.filter(|path| path != "crate::"));
    let absolute = |path: String| match path.strip_prefix("crate::") {
        Some(path) => Some(path.to_owned()),
        None if is_kind => path
            .strip_prefix("super::")
            .map(|path| format!("write::{path}")),
        None => None,
    };
    paths.into_iter().filter_map(absolute).collect()
}

/// Adds the paths of an import such as `crate::{a, b::{c, d}}`.
fn expand_imports(tree: &str, prefix: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((path, list)) = tree.split_once('{') else {
        paths.push(format!("{prefix}{tree}"));
        return;
    };
    let prefix = format!("{prefix}{}", path.trim());
    let list = list.trim_end().strip_suffix('}').unwrap_or(list);
    let (mut depth, mut start) = (0_i32, 0);
    for (position, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand_imports(&list[start..position], &prefix, paths);
                start = position + 1;
            }
            _ => {}
        }
    }
    if !list[start..].trim().is_empty() {
        expand_imports(&list[start..], &prefix, paths);
    }
}

#[test]
fn imports_are_expanded() {
    let code = "use crate::{\n    a::{self, B},\n    c,\n};\nuse super::{d, e::F};\nfn f() { crate::g::h(); }";
    let mut used = used_paths(code, "write/kind");
    used.sort();
    assert_eq!(
        used,
        ["a::B", "a::self", "c", "g::h", "write::d", "write::e::F"]
    );
}

/// Returns `module.rs` and the source files in `module/`.
fn module_files(dir: &Path, module: &str) -> Vec<PathBuf> {
    let mut files = vec![dir.join(module).with_extension("rs")];
    files.extend(files_in(&dir.join(module), "rs"));
    files
}

/// Returns the files with an extension in a directory and in all directories below. Leaves out build output and hidden files.
fn files_in(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') || name == "target" || name == "node_modules" {
                continue;
            }
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn every_path_in_the_documents_exists() {
    let root = root();
    let mut documents = files_in(&root.join("docs"), "md");
    documents
        .extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|file| root.join(file)));
    for document in documents {
        let text = fs::read_to_string(&document).expect("a document");
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
                let near = [
                    "",
                    &section,
                    "odm/src",
                    "odm/src/write",
                    "odm/src/write/references",
                    "odm-derive/src",
                    "odm-engine/src",
                    "tests/tests/storms",
                ];
                let exists = near.iter().any(|dir| root.join(dir).join(path).exists());
                let document = document.display();
                assert!(exists, "{document} names the missing path `{path}`");
            }
        }
    }
}

fn is_path(code: &str) -> bool {
    let named =
        code.ends_with(".rs") || code.ends_with(".md") || code.ends_with('/') && code.len() > 1;
    named && !code.contains([' ', '*', '<', ':']) && !code.starts_with("foo")
}

/// Words of earlier versions of the project. `docs/internals/glossary.md` has the terms that replace them.
const RETIRED_WORDS: &[&str] = &[
    "anew",
    "are told",
    "as good as gone",
    "companion",
    "companions",
    "disown",
    "disowned",
    "disowns",
    "doom",
    "doomed",
    "fence",
    "fenced",
    "fences",
    "is told",
    "lister",
    "listers",
    "made of",
    "overdue",
    "owed",
    "owes",
    "parting",
    "promise",
    "promised",
    "promises",
    "recount",
    "recounts",
    "settle",
    "settled",
    "settles",
    "settling",
    "takes its leave",
    "tallied",
    "tallies",
    "tally",
    "those of which",
    "unentered",
    "whoever",
];

/// Retired words stay out of documents and comments, so that one concept has one term.
#[test]
fn retired_words_stay_out_of_documents_and_comments() {
    let root = root();
    let mut found = Vec::new();
    let mut report = |file: &Path, line: usize, text: &str| {
        let file = file.strip_prefix(&root).expect("a file of the repository");
        for word in retired_words(text) {
            found.push(format!("{}:{line}: {word}", file.display()));
        }
    };
    // The change log names earlier items of the public interface.
    let change_log = root.join("CHANGELOG.md");
    let mut count = 0;
    for file in files_in(&root, "md") {
        if file == change_log {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a document");
        for (line, text) in (1..).zip(text.lines()) {
            report(&file, line, text);
        }
        count += 1;
    }
    let code_dirs = [
        "odm/src",
        "odm-derive/src",
        "odm-engine/src",
        "odm-cli/src",
        "odm-wire/src",
        "tests",
        "examples",
        "benches",
        "fuzz",
    ];
    for dir in code_dirs {
        for file in files_in(&root.join(dir), "rs") {
            let code = fs::read_to_string(&file).expect("a source file");
            for (line, text) in scan(&code).comments {
                report(&file, line, text);
            }
            count += 1;
        }
    }
    assert!(count > 300, "only {count} files");
    assert!(found.is_empty(), "retired words:\n{}", found.join("\n"));
}

/// Returns the retired words that a text contains as whole words.
fn retired_words(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    let is_in_text = |word: &&str| contains_whole(&text, word);
    RETIRED_WORDS.iter().copied().filter(is_in_text).collect()
}

/// Whether a text contains a word, and no letter, digit or underscore directly before or after the word.
fn contains_whole(text: &str, word: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        !text[..start].ends_with(in_name) && !text[start + word.len()..].starts_with(in_name)
    })
}

/// Names in stored metadata that have no other meaning in `odm`.
const STORED_NAMES: &[&str] = &[
    "applied_version",
    "contributions",
    "copied_from",
    "expected_chunks",
    "fan_out",
    "intent",
    "inverse_version",
    "provisional",
    "recompute",
    "revalidate",
    "rollup_state",
    "rollup_version",
    "schema_version",
    "swept_generation",
    "tombstone",
];

/// `odm/src/metadata.rs` and its submodules define all names in stored metadata.
#[test]
fn stored_names_are_defined_in_one_module() {
    let source = root().join("odm/src");
    let definitions = module_files(&source, "metadata");
    let mut found = Vec::new();
    let mut defines_names = false;
    for file in files_in(&source, "rs") {
        let code = fs::read_to_string(&file).expect("a source file");
        let names = stored_names(&code);
        if definitions.contains(&file) {
            defines_names |= !names.is_empty();
            continue;
        }
        let file = file.strip_prefix(&source).expect("inside");
        let places = names.iter();
        found.extend(places.map(|(line, name)| format!("{}:{line}: {name}", file.display())));
    }
    assert!(defines_names, "odm/src/metadata.rs is moved or empty");
    assert!(found.is_empty(), "stored names:\n{}", found.join("\n"));
}

/// Returns the string literals with a name of stored metadata, each with its line.
fn stored_names(code: &str) -> Vec<(usize, &str)> {
    let is_stored = |literal: &str| {
        let is_path = literal
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.$".contains(c));
        contains_whole(literal, "_odm")
            || is_path && literal.split('.').any(|name| STORED_NAMES.contains(&name))
    };
    let literals = scan(code).literals.into_iter();
    literals.filter(|(_, literal)| is_stored(literal)).collect()
}

/// The comments and the string literals of Rust code, each with the number of its first line.
#[derive(Debug, Default, PartialEq)]
struct Scanned<'c> {
    comments: Vec<(usize, &'c str)>,
    literals: Vec<(usize, &'c str)>,
}

/// Finds the comments and the string literals of Rust code.
fn scan(code: &str) -> Scanned<'_> {
    let mut scanned = Scanned::default();
    let (mut rest, mut line) = (code, 1);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            let length = rest.find('\n').unwrap_or(rest.len());
            scanned.comments.push((line, &rest[..length]));
            length
        } else if rest.starts_with("/*") {
            let length = rest.find("*/").map_or(rest.len(), |end| end + "*/".len());
            let lines = rest[..length].lines();
            scanned.comments.extend((line..).zip(lines));
            length
        } else if let Some((begin, hashes)) = raw_string_start(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let length = rest[begin..].find(&end).unwrap_or(rest.len() - begin);
            scanned.literals.push((line, &rest[begin..begin + length]));
            rest.len().min(begin + length + end.len())
        } else if first == '"' {
            let length = quoted_length(&rest[1..], '"');
            scanned.literals.push((line, &rest[1..1 + length]));
            rest.len().min(length + 2)
        } else if first == '\'' && is_char_literal(rest) {
            rest.len().min(quoted_length(&rest[1..], '\'') + 2)
        } else if first.is_alphanumeric() || first == '_' {
            // A whole name, so that the `r` at the end of a name begins no raw string.
            rest.find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    scanned
}

/// Returns the start of the text and the number of `#`, if the code begins with a raw string.
fn raw_string_start(code: &str) -> Option<(usize, usize)> {
    let prefixes = ["br", "cr", "r"];
    let raw = prefixes
        .iter()
        .find_map(|prefix| code.strip_prefix(prefix))?;
    let quoted = raw.trim_start_matches('#');
    let text = quoted.strip_prefix('"')?;
    Some((code.len() - text.len(), raw.len() - quoted.len()))
}

/// Returns the length of a literal up to the closing quote.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = text.find(|c: char| {
        let is_end = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    end.unwrap_or(text.len())
}

/// Whether the code at a single quote is a character. Otherwise the quote begins a lifetime.
fn is_char_literal(code: &str) -> bool {
    let mut chars = code.chars().skip(1);
    chars.next() == Some('\\') || chars.next() == Some('\'')
}

#[test]
fn one_retired_word_is_found() {
    assert_eq!(retired_words("The tally of a post."), ["tally"]);
    assert_eq!(
        retired_words("Whoever owes: fence-post"),
        ["fence", "owes", "whoever"]
    );
    assert!(retired_words("totally unsettled, promise_all, offences").is_empty());
}

#[test]
fn one_stored_name_is_found() {
    let code = "
// \"_odm.lease\" in a comment
let path = \"_odm.lease\"; // tally
fn name<'a>(quote: char) -> &'a str { if quote == '\"' { \"intent\" } else { r#\"a \"_odm\" b\"# } }
let other = [\"__odm_validated\", \"the intent of a write\", \"models_odm\", \"\\\"\", \"pending.fan_out\"];
/* two
lines */";
    assert_eq!(
        stored_names(code),
        [
            (3, "_odm.lease"),
            (4, "intent"),
            (4, "a \"_odm\" b"),
            (5, "pending.fan_out")
        ]
    );
    let comments = [
        (2, "// \"_odm.lease\" in a comment"),
        (3, "// tally"),
        (6, "/* two"),
        (7, "lines */"),
    ];
    assert_eq!(scan(code).comments, comments);
}
