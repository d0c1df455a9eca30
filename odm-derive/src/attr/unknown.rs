//! What is said of a setting that there is not: with the one that was meant, if there is a near one.

use strsim::damerau_levenshtein;
use syn::Attribute;

/// The beginning of a message: "unknown setting `colection` (did you mean `collection`?)".
pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(meant) => format!("unknown {what} `{name}` (did you mean `{meant}`?)"),
        None => format!("unknown {what} `{name}`"),
    }
}

/// The attributes of a field or a type.
const ATTRIBUTES: [&str; 13] = [
    "computed",
    "count",
    "denormalize",
    "document",
    "embed",
    "embedded",
    "index",
    "latest",
    "projection",
    "reference",
    "schema",
    "snapshot",
    "sum",
];

/// Whether one of these is such an attribute but for a typo, which the compiler reports: what it would have said is not missed then.
pub(crate) fn is_misspelt(attrs: &[Attribute]) -> bool {
    let names = attrs.iter().filter_map(|attr| attr.path().get_ident());
    names.map(ToString::to_string).any(|name| {
        let is_near =
            |known: &&str| (1..=name.len() / 3).contains(&damerau_levenshtein(&name, known));
        !ATTRIBUTES.contains(&name.as_str()) && ATTRIBUTES.iter().any(is_near)
    })
}

/// The name that is written like it but for a typo, or that is the short form of it or the other way round.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let is_form = |other: &str| {
        let (short, long) = if other.len() < name.len() {
            (other, name)
        } else {
            (name, other)
        };
        short.len() >= 3 && long.starts_with(short)
    };
    let distance = |other: &str| match is_form(other) {
        true => 0,
        false => damerau_levenshtein(name, other),
    };
    let near = known
        .iter()
        .copied()
        .filter(|other| distance(other) <= name.len() / 3);
    near.min_by_key(|other| distance(other))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn typos_are_near_and_other_words_are_not() {
        let known = [
            "collection",
            "companion",
            "max",
            "on_delete",
            "unbounded",
            "sync",
        ];
        for (name, expected) in [
            ("colection", Some("collection")),
            ("collecton", Some("collection")),
            ("comapnion", Some("companion")),
            ("maximum", Some("max")),
            ("unbound", Some("unbounded")),
            ("ondelete", Some("on_delete")),
            ("snyc", Some("sync")),
            ("unique", None),
            ("name", None),
        ] {
            assert_eq!(nearest(name, &known), expected, "{name}");
        }
    }
}
