//! Tests that expanded code is readable, for developers who look at the expansion of a derive.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use quote::ToTokens;
use syn::{Attribute, DeriveInput, Item, ItemMod, Meta, punctuated::Punctuated};

use crate::{Expand, ctxt::Ctxt, expand};

/// The derives, by name.
const DERIVES: [(&str, Expand); 5] = [
    ("Document", expand::document::expand),
    ("Embedded", expand::embedded::expand),
    ("Patch", expand::patch::expand),
    ("Projection", expand::projection::expand),
    ("Schema", expand::schema::expand),
];

/// Collects all types of a file, including types in inline modules.
fn collect_types(items: Vec<Item>, types: &mut Vec<DeriveInput>) {
    for item in items {
        match item {
            Item::Struct(_) | Item::Enum(_) => {
                types.push(syn::parse2(item.into_token_stream()).expect("a type"));
            }
            Item::Mod(ItemMod {
                content: Some((_, items)),
                ..
            }) => collect_types(items, types),
            _ => {}
        }
    }
}

/// Returns the expansions of this crate's derives on a type.
fn expansions_of(attrs: &[Attribute]) -> impl Iterator<Item = Expand> {
    let lists = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::List(list) if list.path.is_ident("derive") => Some(list),
        _ => None,
    });
    lists.flat_map(|list| {
        let names = list.parse_args_with(Punctuated::<syn::Path, syn::Token![,]>::parse_terminated);
        let names = names.expect("names of derives").into_iter();
        names.filter_map(|name| {
            let last = name.segments.last()?.ident.to_string();
            let derive = DERIVES.iter().find(|(name, _)| *name == last);
            derive.map(|(_, expand)| *expand)
        })
    })
}

/// Expands all derives in Rust code. Returns the number of derives and the generated code.
fn expand_all(code: &str) -> (usize, String) {
    let (mut count, mut text) = (0, String::new());
    let mut types = Vec::new();
    collect_types(syn::parse_file(code).expect("Rust code").items, &mut types);
    for input in &types {
        for expand in expansions_of(&input.attrs) {
            let mut ctxt = Ctxt::default();
            let code = expand(&mut ctxt, input);
            assert!(ctxt.is_clean(), "{} does not compile", input.ident);
            text += &code.expect("generated code").to_string();
            text.push('\n');
            count += 1;
        }
    }
    (count, text)
}

fn run_rustfmt(code: &str) -> String {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rustfmt: `rustup component add rustfmt`");
    let mut input = rustfmt.stdin.take().expect("stdin of rustfmt");
    let input_text = code.to_owned();
    let writer = std::thread::spawn(move || input.write_all(input_text.as_bytes()));
    let output = rustfmt.wait_with_output().expect("output of rustfmt");
    writer
        .join()
        .expect("the writer thread")
        .expect("rustfmt reads all input");
    assert!(output.status.success(), "rustfmt fails");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the source of the book's models and of all examples.
fn model_sources() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = vec![
        root.join("book/blog.rs"),
        root.join("examples/src/catalog/model.rs"),
    ];
    let examples = fs::read_dir(root.join("examples/src/bin")).expect("the examples");
    paths.extend(examples.map(|file| file.expect("a file").path()));
    let texts = paths
        .into_iter()
        .map(|path| fs::read_to_string(path).expect("a program"));
    texts.collect()
}

/// rustfmt leaves a line unchanged if no formatting fits; a second pass and the line lengths reveal such lines.
#[test]
fn expanded_code_is_formatted() {
    let (mut count, mut lines) = (0, 0);
    for program in model_sources() {
        let (part_count, code) = expand_all(&program);
        let text = run_rustfmt(&code);
        assert_eq!(
            text,
            run_rustfmt(&text),
            "a second pass of rustfmt changes the code"
        );
        for line in text.lines() {
            // rustfmt cannot wrap an assertion on a long user type, and does not count the end of an `impl` header.
            let is_free = line.contains('"') || line.trim_start().starts_with("< <");
            assert!(is_free || line.chars().count() <= 108, "too long: {line}");
            assert_eq!(line, line.trim_end());
        }
        lines += text.lines().count();
        count += part_count;
    }
    assert!(count >= 60, "{count} derives");
    println!("{lines} lines of {count} derives");
}

/// Checks that the expansion contains no code without effect, which no developer would write.
#[test]
fn expanded_code_has_no_noise() {
    for program in model_sources() {
        let text = run_rustfmt(&expand_all(&program).1);
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
            "fn links(found: &mut _odm::LinkCollector) {}",
        ] {
            let at = words.find(noise);
            let excerpt = at.map(|at| words.get(at.saturating_sub(200)..).unwrap_or_default());
            let excerpt: Option<String> = excerpt.map(|text| text.chars().take(300).collect());
            assert_eq!(excerpt, None, "`{noise}`");
        }
    }
}
