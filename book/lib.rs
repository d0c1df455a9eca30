//! The book, and the models of its examples. The code of each page is a documentation test.

#[rustfmt::skip]
#[expect(missing_docs, reason = "the page that shows the models explains the fields")]
pub mod blog;
#[expect(missing_docs, reason = "the names explain the remaining fields")]
pub mod shop;

/// Makes the pages documentation tests, and lists the pages for the tests of the book.
///
/// The page of mistakes shows code that does not compile. The suite of compile errors tests that page.
macro_rules! pages {
    ($($name:ident: $file:literal,)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("src/", $file))]
            struct $name;
        )*

        #[cfg(test)]
        const PAGES: &[(&str, &str)] = &[
            ("mistakes.md", include_str!("src/mistakes.md")),
            $(($file, include_str!(concat!("src/", $file)))),*
        ];
    };
}

pages! {
    Introduction: "introduction.md",
    GettingStarted: "getting-started.md",
    Modelling: "modelling.md",
    Types: "types.md",
    Queries: "queries.md",
    Writes: "writes.md",
    Relations: "relations.md",
    Copies: "copies.md",
    Rollups: "rollups.md",
    Computed: "computed.md",
    Sequences: "sequences.md",
    Trees: "trees.md",
    Overflow: "overflow.md",
    Transactions: "transactions.md",
    Errors: "errors.md",
    Web: "web.md",
    Json: "json.md",
    Testing: "testing.md",
    SchemaChanges: "schema-changes.md",
    Tenancy: "tenancy.md",
    SoftDelete: "soft-delete.md",
    Validation: "validation.md",
    Observability: "observability.md",
    Embedded: "embedded.md",
    Operate: "operate.md",
    MongoDb: "mongodb.md",
    Moving: "moving.md",
    Performance: "performance.md",
    Operations: "operations.md",
    RoundTrips: "round-trips.md",
    CompileTime: "compile-time.md",
    Faq: "faq.md",
    Troubleshooting: "troubleshooting.md",
    OnePage: "one-page.md",
    Attributes: "attributes.md",
    Glossary: "glossary.md",
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use mdbook_driver::MDBook;

    use super::PAGES;

    const SUMMARY: &str = include_str!("src/SUMMARY.md");

    /// The glossary of the book.
    const GLOSSARY: &str = include_str!("src/glossary.md");
    /// The file name of the glossary in [`PAGES`].
    const GLOSSARY_FILE: &str = "glossary.md";
    /// The glossary for contributors, with the terms of the library.
    const CONTRIBUTORS_GLOSSARY: &str = include_str!("../docs/internals/glossary.md");

    /// Returns the lines of a page outside of code blocks.
    fn text_lines(page: &str) -> impl Iterator<Item = &str> {
        let mut in_code = false;
        page.lines().filter(move |line| {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            !in_code && !is_fence
        })
    }

    fn link_targets(page: &str) -> Vec<String> {
        let text = text_lines(page).collect::<Vec<_>>().join("\n");
        let targets = text.split("](").skip(1);
        let targets = targets.filter_map(|rest| rest.split_once(')'));
        targets.map(|(target, _)| target.to_owned()).collect()
    }

    /// Returns the anchor of a heading, as mdBook and code hosts derive it.
    fn anchor(heading: &str) -> String {
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c),
            _ => None,
        });
        kept.collect()
    }

    fn anchors(page: &str) -> BTreeSet<String> {
        let headings = text_lines(page).filter(|line| line.starts_with('#'));
        headings
            .map(|line| anchor(line.trim_start_matches('#')))
            .collect()
    }

    /// Returns the terms of a glossary, from the first column of the tables. A cell holds several terms with commas, or a term
    /// with a note in parentheses. A term in backticks is a name in code.
    fn glossary_terms(glossary: &str) -> BTreeSet<&str> {
        let rows = text_lines(glossary).filter_map(|line| line.strip_prefix("| "));
        let cells = rows.filter_map(|row| row.split_once(" |").map(|(cell, _)| cell));
        let cells = cells.filter(|cell| !["term", "name"].contains(cell));
        let cells = cells.map(|cell| cell.split_once(" (").map_or(cell, |(term, _)| term));
        cells.flat_map(|cell| cell.split(", ")).collect()
    }

    /// Returns whether a text contains a word that is not a part of a longer word.
    fn contains_word(text: &str, word: &str) -> bool {
        let is_word_part = |c: char| c.is_alphanumeric() || c == '_';
        text.match_indices(word).any(|(start, _)| {
            let before = text[..start].chars().next_back();
            let after = text[start + word.len()..].chars().next();
            !before.is_some_and(is_word_part) && !after.is_some_and(is_word_part)
        })
    }

    /// Returns whether a page uses a term. A name in code counts between backticks only. Any other term counts outside of
    /// backticks, in the singular and in the plural.
    fn uses_term(page: &str, term: &str) -> bool {
        let text: Vec<_> = text_lines(page).map(str::trim).collect();
        let text = text.join(" ");
        if term.starts_with('`') {
            let name = term.trim_matches('`').trim_end_matches("()");
            let mut codes = text.split('`').skip(1).step_by(2);
            return codes.any(|code| contains_word(code, name));
        }
        let prose: Vec<_> = text.split('`').step_by(2).collect();
        let prose = prose.join("`").to_lowercase();
        let term = term.to_lowercase();
        let plural = term.strip_suffix('y').map(|stem| format!("{stem}ies"));
        [format!("{term}s"), format!("{term}es"), term]
            .into_iter()
            .chain(plural)
            .any(|form| contains_word(&prose, &form))
    }

    /// Returns each term of the contributors that a page uses and `glossary` lacks, with the page.
    fn terms_missing_in(glossary: &str) -> Vec<String> {
        let explained = glossary_terms(glossary);
        let mut missing = Vec::new();
        for term in glossary_terms(CONTRIBUTORS_GLOSSARY).difference(&explained) {
            for (file, page) in PAGES {
                if *file != GLOSSARY_FILE && uses_term(page, term) {
                    missing.push(format!("{file}: {term}"));
                }
            }
        }
        missing
    }

    #[test]
    fn each_page_is_listed_and_tested() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let files = fs::read_dir(folder).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<_> = files.filter(|file| file != "SUMMARY.md").collect();
        let tested: BTreeSet<_> = PAGES.iter().map(|(file, _)| (*file).to_owned()).collect();
        let listed: BTreeSet<_> = link_targets(SUMMARY).into_iter().collect();
        assert_eq!(files, tested, "`pages!` in lib.rs lists every file");
        assert_eq!(files, listed, "SUMMARY.md lists every file");
    }

    /// Links of a page lead to pages of the book and to existing headings. The rendered book has no other files of the
    /// repository.
    #[test]
    fn each_link_has_a_target() {
        let mut broken = Vec::new();
        for (file, page) in PAGES {
            for target in link_targets(page) {
                if target.starts_with("http") {
                    continue;
                }
                let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
                let path = if path.is_empty() { file } else { path };
                let linked = PAGES.iter().find(|(other, _)| *other == path);
                let is_found = linked
                    .is_some_and(|(_, page)| heading.is_empty() || anchors(page).contains(heading));
                if !is_found {
                    broken.push(format!("{file}: {target}"));
                }
            }
        }
        assert!(broken.is_empty(), "{broken:#?}");
    }

    /// The glossary of the book explains each term of the contributors' glossary that a page uses. Otherwise add the term to the
    /// glossary, or reword the page.
    #[test]
    fn pages_use_terms_of_the_glossary() {
        let missing = terms_missing_in(GLOSSARY);
        assert!(missing.is_empty(), "glossary.md lacks: {missing:#?}");

        // Without an entry, the search finds the pages: a term in the plural, and a name in code.
        let found = terms_missing_in("");
        for use_of_term in ["relations.md: delete rule", "copies.md: `_odm.schema`"] {
            let use_of_term = use_of_term.to_owned();
            assert!(found.contains(&use_of_term), "{use_of_term}: {found:#?}");
        }
    }

    /// mdBook renders each page, as `mdbook build book` does.
    #[test]
    fn the_book_builds() {
        let folder = tempfile::tempdir().unwrap();
        let mut book = MDBook::load(env!("CARGO_MANIFEST_DIR")).unwrap();
        folder.path().clone_into(&mut book.config.build.build_dir);
        book.build().unwrap();
        for (file, _) in PAGES {
            let page = fs::read_to_string(folder.path().join(file).with_extension("html"));
            assert!(page.unwrap().contains("<h1"), "{file}");
        }
    }

    /// The page shows exactly the models that its compiled examples use.
    #[test]
    fn the_page_shows_its_models() {
        let page = include_str!("src/one-page.md");
        let (_, models) = include_str!("blog.rs").split_once("\n\n").unwrap();
        assert!(page.contains(&format!("```rust\n{models}```")));
    }
}
