//! Misuse does not compile, and the message is at the user's token, with a remedy and without noise.
//!
//! Each `ui/<topic>/<mistake>.rs` is one mistake (or a few of one kind), its `.stderr` what the compiler says.
//! `TRYBUILD=overwrite cargo test -p odm-tests --test ui` writes the latter anew: read what changed.

use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("ui/*/*.rs");
}

/// The line of a file at which a message is, `ui/derive/no_id.rs:5:8`.
fn line_at(place: &str) -> String {
    let mut parts = place.trim().split(':');
    let file = fs::read_to_string(parts.next().expect("a file")).expect("a mistake");
    let number: usize = parts
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a line");
    file.lines().nth(number - 1).expect("the line").to_owned()
}

/// Whether a text has names that derived code gives, `__M`, or serde's own derives: `_::_serde`.
fn has_names_of_derived_code(text: &str) -> bool {
    let is_one = |behind: &str| behind.starts_with(|c: char| c.is_ascii_uppercase());
    text.contains("_::_serde") || text.split("__").skip(1).any(is_one)
}

/// An error as the compiler prints it.
struct Message<'t> {
    headline: &'t str,
    /// Where it is said to be.
    place: &'t str,
    text: &'t str,
}

impl<'t> Message<'t> {
    /// All that there are in what was printed.
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
                .map_or("", |(_, behind)| behind.lines().next().unwrap_or_default()),
            text,
        });
        messages.collect()
    }
}

/// What is printed for each mistake, with the name of its file.
fn printed() -> Vec<(String, String)> {
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
                let text = fs::read_to_string(&path).expect("what is printed");
                all.push((path.display().to_string(), text));
            }
        }
    }
    all
}

/// Of each use that derived code has of a type, serde's own among it, the compiler says again that the type is none.
const REPEATED: &[&str] = &[
    "derive/no_serialize",
    "derive/parameters_of_serde",
    "derive/reference_to_no_document",
    "kinds/variant_that_is_no_document",
];

/// What the compiler says of the code of a derive, serde's own among it.
const AT_A_DERIVE: &[&str] = &[
    "derive/parameters_of_serde",
    "derive/reference_to_no_document",
    "enums/content_that_cannot_be_stored",
    "kinds/variant_that_is_no_document",
    "native/wrong_type",
    "projection/of_no_document",
];

/// What tells the names of types that serde derives, or of the parameters of derived code.
const NAMES_OF_DERIVED_CODE: &[&str] = &[
    "counts/written",
    "derive/no_serialize",
    "derive/parameters_of_serde",
    "derive/reference_to_no_document",
    "enums/any_element",
    "enums/model_outside_of_the_schema",
    "enums/update_in_every_element",
    "hooks/another_schema",
    "hooks/no_impl",
    "projection/no_deserialize",
    "schema/target_missing",
    "schema/target_missing_below",
];

/// What serde's own derive leaves to be guessed, behind the message that says why.
const OF_SERDE: &[&str] = &["derive/parameters_of_serde"];

/// Whether a file is among the exceptions to a rule, and needs to be.
fn is_excepted(exceptions: &[&str], file: &str) -> bool {
    exceptions
        .iter()
        .any(|name| file.ends_with(&format!("{name}.stderr")))
}

#[test]
fn messages_are_about_what_the_user_wrote() {
    let all = printed();
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
        for (exceptions, is_so, what) in [
            (REPEATED, !is_once, "something is said twice of one place"),
            (
                OF_SERDE,
                is_guessed,
                "something follows from something else",
            ),
            (AT_A_DERIVE, is_at_a_derive, "something is said of a derive"),
            (
                NAMES_OF_DERIVED_CODE,
                has_names_of_derived_code(text),
                "something has a name that derived code gives",
            ),
        ] {
            assert_eq!(
                is_excepted(exceptions, file),
                is_so,
                "{file}: {what}, or not any more"
            );
        }
    }
}

#[test]
fn all_mistakes_of_a_model_are_said_at_once() {
    let text = fs::read_to_string("ui/derive/five_at_once.stderr").expect("what is printed");
    let places: BTreeSet<_> = Message::all(&text)
        .iter()
        .map(|message| message.place)
        .collect();
    assert_eq!(places.len(), 5, "{places:?}");
}

/// Without what separates words: how a line is broken says nothing.
fn words(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn the_page_of_mistakes_says_what_is_printed() {
    let page = include_str!("../../docs/guide/mistakes.md");
    let remedies = words(include_str!("derive/remedies.rs"));
    let mut mistakes = 0;
    for part in page.split("\n## ").skip(1) {
        let (said, behind) = part.split_once("<!-- ").expect("its file");
        let (name, behind) = behind.split_once(" -->").expect("its file");
        assert!(
            said.lines().any(|line| line.ends_with(['.', ':'])),
            "{name}: a sentence"
        );
        let blocks: Vec<_> = behind.split("```").collect();
        let message = blocks[1].strip_prefix("text\n").expect("its message");
        let path = Path::new("ui").join(name).with_extension("stderr");
        let printed = fs::read_to_string(&path).expect("what is printed");
        let messages = Message::all(&printed);
        let headline = message.lines().next().unwrap_or_default();
        let own = messages.iter().find(|own| own.headline == headline);
        let own = own.unwrap_or_else(|| panic!("{name}: `{headline}` is not printed"));
        let mut lines = own.text.lines();
        for line in message.lines() {
            assert!(
                lines.any(|own| own == line),
                "{name}: `{line}` is not printed, or not there"
            );
        }
        let remedy = blocks.get(3).expect("a remedy");
        let remedy = remedy.strip_prefix("rust\n").expect("a remedy");
        for line in remedy.lines() {
            assert!(
                remedies.contains(&words(line)),
                "{name}: `{line}` is nowhere tried"
            );
        }
        mistakes += 1;
    }
    assert_eq!(mistakes, 20);
}
