//! What somebody sees who expands a derive: code as a person would have written it.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use quote::ToTokens;
use syn::{Attribute, DeriveInput, Item, ItemMod, Meta, Path as Name, punctuated::Punctuated};

use crate::{Expand, ctxt::Ctxt, expand};

/// The derives, by name.
const DERIVES: [(&str, Expand); 4] = [
    ("Document", expand::document::expand),
    ("Embedded", expand::embedded::expand),
    ("Projection", expand::projection::expand),
    ("Schema", expand::schema::expand),
];

/// All types of a file, in its modules too.
fn types(items: Vec<Item>, found: &mut Vec<DeriveInput>) {
    for item in items {
        match item {
            Item::Struct(_) | Item::Enum(_) => {
                found.push(syn::parse2(item.into_token_stream()).expect("a type"));
            }
            Item::Mod(ItemMod {
                content: Some((_, items)),
                ..
            }) => types(items, found),
            _ => {}
        }
    }
}

/// What a type derives of ours.
fn derived(attrs: &[Attribute]) -> impl Iterator<Item = Expand> {
    let lists = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::List(list) if list.path.is_ident("derive") => Some(list),
        _ => None,
    });
    lists.flat_map(|list| {
        let names = list.parse_args_with(Punctuated::<Name, syn::Token![,]>::parse_terminated);
        let names = names.expect("names of derives").into_iter();
        names.filter_map(|name| {
            let last = name.segments.last()?.ident.to_string();
            let found = DERIVES.iter().find(|(name, _)| *name == last);
            found.map(|(_, expand)| *expand)
        })
    })
}

/// What is derived for the models of some Rust code, as text, with how many derives that are.
fn expanded(code: &str) -> (usize, String) {
    let (mut count, mut text) = (0, String::new());
    let mut found = Vec::new();
    types(syn::parse_file(code).expect("Rust code").items, &mut found);
    for input in &found {
        for expand in derived(&input.attrs) {
            let mut ctxt = Ctxt::default();
            let code = expand(&mut ctxt, input);
            assert!(ctxt.is_clean(), "{} does not compile", input.ident);
            text += &code.expect("what is derived").to_string();
            text.push('\n');
            count += 1;
        }
    }
    (count, text)
}

fn formatted(code: &str) -> String {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rustfmt: `rustup component add rustfmt`");
    let mut input = rustfmt.stdin.take().expect("its input");
    let sent = code.to_owned();
    let writer = std::thread::spawn(move || input.write_all(sent.as_bytes()));
    let done = rustfmt.wait_with_output().expect("its output");
    writer.join().expect("a thread").expect("all is read");
    assert!(done.status.success(), "rustfmt fails");
    String::from_utf8(done.stdout).expect("text")
}

/// Where there are models that people have written.
fn programs() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = vec![
        root.join("docs/guide/models.rs"),
        root.join("examples/src/catalog/model.rs"),
    ];
    let examples = fs::read_dir(root.join("examples/src/bin")).expect("the examples");
    paths.extend(examples.map(|file| file.expect("a file").path()));
    let texts = paths
        .into_iter()
        .map(|path| fs::read_to_string(path).expect("a program"));
    texts.collect()
}

/// rustfmt leaves a line as it is where it finds no form for it.
#[test]
fn what_is_derived_has_the_form_that_rustfmt_gives() {
    let (mut count, mut lines) = (0, 0);
    for program in programs() {
        let (some, code) = expanded(&program);
        let text = formatted(&code);
        assert_eq!(
            text,
            formatted(&text),
            "it has another form the second time"
        );
        for line in text.lines() {
            // No form is found for a check of a long type of the user's, and the end of a header is not counted.
            let is_free = line.contains('"') || line.trim_start().starts_with("< <");
            assert!(is_free || line.chars().count() <= 108, "too long: {line}");
            assert_eq!(line, line.trim_end());
        }
        lines += text.lines().count();
        count += some;
    }
    assert!(count >= 60, "{count} derives");
    println!("{lines} lines of {count} derives");
}

/// Nobody writes what says nothing.
#[test]
fn what_is_derived_says_nothing_for_nothing() {
    for program in programs() {
        let text = formatted(&expanded(&program).1);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for noise in [
            "<>",
            "false ||",
            "|| false",
            "where {",
            "let _ = &",
            "let _ = (",
            "&[], ",
            "{ ..",
            "fn links(found: &mut _odm::LinksWalk) {}",
        ] {
            let at = words.find(noise);
            let around = at.map(|at| words.get(at.saturating_sub(200)..).unwrap_or_default());
            let around: Option<String> = around.map(|text| text.chars().take(300).collect());
            assert_eq!(around, None, "`{noise}`");
        }
    }
}
