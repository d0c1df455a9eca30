//! Misuse does not compile. The message points at the user's token, names a remedy and has no noise.
//!
//! Each `ui/<topic>/<mistake>.rs` holds one mistake, or a few of one kind. Its `.stderr` holds the compiler's output.
//! `TRYBUILD=overwrite cargo test -p odm-tests --test ui` rewrites the `.stderr` files. Review the changes.

use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("ui/*/*.rs");
}

/// Returns the source line of a message, given a place such as `ui/derive/no_id.rs:5:8`.
fn line_at(place: &str) -> String {
    let mut parts = place.trim().split(':');
    let file = fs::read_to_string(parts.next().expect("a file")).expect("a mistake");
    let number: usize = parts
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a line");
    file.lines().nth(number - 1).expect("the line").to_owned()
}

/// Returns whether a text contains names from derived code: generic parameters such as `__M`, or `_::_serde` of serde's derives.
fn has_names_of_derived_code(text: &str) -> bool {
    let is_one = |rest: &str| rest.starts_with(|c: char| c.is_ascii_uppercase());
    text.contains("_::_serde") || text.split("__").skip(1).any(is_one)
}

/// An error message of the compiler.
struct Message<'t> {
    headline: &'t str,
    /// The file, line and column of the error.
    place: &'t str,
    text: &'t str,
}

impl<'t> Message<'t> {
    /// Returns all error messages in the output.
    fn all(printed: &'t str) -> Vec<Self> {
        let mut starts: Vec<_> = printed
            .match_indices("\nerror")
            .map(|(at, _)| at + 1)
            .collect();
        starts.insert(0, 0);
        let ends = starts.iter().skip(1).copied().chain([printed.len()]);
        let texts = starts
            .iter()
            .zip(ends)
            .map(|(start, end)| &printed[*start..end]);
        let messages = texts.map(|text| Self {
            headline: text.lines().next().unwrap_or_default(),
            place: text
                .split_once("--> ")
                .map_or("", |(_, rest)| rest.lines().next().unwrap_or_default()),
            text,
        });
        messages.collect()
    }
}

/// Returns the expected output of each mistake, with the name of the file.
fn expected_outputs() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for topic in fs::read_dir("ui").expect("the mistakes") {
        let topic = topic.expect("a topic").path();
        if !topic.is_dir() {
            continue;
        }
        for file in fs::read_dir(topic).expect("a topic") {
            let path = file.expect("a file").path();
            if path
                .extension()
                .is_some_and(|extension| extension == "stderr")
            {
                let text = fs::read_to_string(&path).expect("the expected output");
                all.push((path.display().to_string(), text));
            }
        }
    }
    all
}

/// Files with an error that appears more than once at the same place. The compiler repeats the error for each use of the type in
/// derived code, including serde's.
const WITH_REPEATED_ERRORS: &[&str] = &[
    "derive/no_serialize",
    "derive/parameters_of_serde",
    "derive/reference_to_no_document",
    "enum_documents/variant_that_is_no_document",
];

/// Files with an error that points at a derive, from the code of `odm` or of serde.
const WITH_ERRORS_AT_A_DERIVE: &[&str] = &[
    "derive/parameters_of_serde",
    "derive/reference_to_no_document",
    "enum_documents/variant_that_is_no_document",
    "enums/content_that_cannot_be_stored",
    "json/invalid_attributes",
    "native/wrong_type",
    "projection/of_no_document",
];

/// Files with messages that contain names from derived code: types in serde's derives, or generic parameters.
const WITH_NAMES_OF_DERIVED_CODE: &[&str] = &[
    "derive/no_serialize",
    "derive/parameters_of_serde",
    "derive/reference_to_no_document",
    "enums/any_element",
    "enums/model_outside_of_the_schema",
    "enums/update_in_every_element",
    "hooks/another_schema",
    "hooks/no_impl",
    "projection/no_deserialize",
    "rollups/written",
    "schema/target_missing",
    "schema/target_missing_below",
];

/// Files with type inference errors of serde's derive, after the message that explains the cause.
const WITH_INFERENCE_ERRORS_OF_SERDE: &[&str] = &["derive/parameters_of_serde"];

/// Returns whether a file is in a list of exceptions.
fn is_excepted(exceptions: &[&str], file: &str) -> bool {
    exceptions
        .iter()
        .any(|name| file.ends_with(&format!("{name}.stderr")))
}

#[test]
fn messages_are_about_what_the_user_wrote() {
    let all = expected_outputs();
    assert!(all.len() >= 300, "{}", all.len());
    for (file, text) in &all {
        let messages = Message::all(text);
        let mut before = BTreeSet::new();
        let [mut is_at_a_derive, mut is_guessed] = [false; 2];
        let mut is_once = true;
        for message in &messages {
            let (headline, place) = (message.headline, message.place);
            assert!(headline.starts_with("error"), "{file}: {headline}");
            assert!(place.starts_with("ui/"), "{file}: {headline} is at {place}");
            assert!(
                !message.text.contains("__private"),
                "{file}: {headline} tells what derived code calls"
            );
            is_once &= before.insert((headline, place));
            is_at_a_derive |= line_at(place).trim_start().starts_with("#[derive(");
            let guesses = ["E0282", "E0283", "E0284"];
            is_guessed |= guesses.iter().any(|guess| headline.contains(guess));
        }
        for (exceptions, is_exception, reason) in [
            (WITH_REPEATED_ERRORS, !is_once, "one place has two messages"),
            (
                WITH_INFERENCE_ERRORS_OF_SERDE,
                is_guessed,
                "one message follows from another",
            ),
            (
                WITH_ERRORS_AT_A_DERIVE,
                is_at_a_derive,
                "a message is at a derive",
            ),
            (
                WITH_NAMES_OF_DERIVED_CODE,
                has_names_of_derived_code(text),
                "a message contains a name of derived code",
            ),
        ] {
            assert_eq!(
                is_excepted(exceptions, file),
                is_exception,
                "{file}: {reason}, or not any more"
            );
        }
    }
}

#[test]
fn all_mistakes_of_a_model_are_reported_at_once() {
    let text = fs::read_to_string("ui/derive/five_at_once.stderr").expect("the expected output");
    let places: BTreeSet<_> = Message::all(&text)
        .iter()
        .map(|message| message.place)
        .collect();
    assert_eq!(places.len(), 5, "{places:?}");
}

/// Removes all whitespace, so that line breaks do not matter in a comparison.
fn without_whitespace(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn the_mistakes_page_matches_compiler_messages() {
    let page = include_str!("../../book/src/mistakes.md");
    let remedies = without_whitespace(include_str!("derive/remedies.rs"));
    let mut mistakes = 0;
    for part in page.split("\n## ").skip(1) {
        let (explanation, rest) = part.split_once("<!-- ").expect("its file");
        let (name, rest) = rest.split_once(" -->").expect("its file");
        assert!(
            explanation.lines().any(|line| line.ends_with(['.', ':'])),
            "{name}: a sentence"
        );
        let blocks: Vec<_> = rest.split("```").collect();
        let message = blocks[1].strip_prefix("text\n").expect("its message");
        let path = Path::new("ui").join(name).with_extension("stderr");
        let printed = fs::read_to_string(&path).expect("the expected output");
        let messages = Message::all(&printed);
        let headline = message.lines().next().unwrap_or_default();
        let printed_message = messages
            .iter()
            .find(|printed_message| printed_message.headline == headline);
        let printed_message =
            printed_message.unwrap_or_else(|| panic!("{name}: `{headline}` is not printed"));
        let mut lines = printed_message.text.lines();
        for line in message.lines() {
            assert!(
                lines.any(|printed_message| printed_message == line),
                "{name}: `{line}` is not printed, or not there"
            );
        }
        let remedy = blocks.get(3).expect("a remedy");
        let remedy = remedy.strip_prefix("rust\n").expect("a remedy");
        for line in remedy.lines() {
            assert!(
                remedies.contains(&without_whitespace(line)),
                "{name}: `{line}` is nowhere tried"
            );
        }
        mistakes += 1;
    }
    assert_eq!(mistakes, 20);
}
