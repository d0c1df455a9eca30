//! Error messages for unknown settings, with a suggestion for likely typos.

use strsim::damerau_levenshtein;
use syn::Attribute;

/// Returns the beginning of a message: "unknown setting `colection` (did you mean `collection`?)".
pub(crate) fn unknown_setting(noun: &str, name: &str, known: &[&str]) -> String {
    match nearest_name(name, known) {
        Some(suggestion) => format!("unknown {noun} `{name}` (did you mean `{suggestion}`?)"),
        None => format!("unknown {noun} `{name}`"),
    }
}

/// The derive attributes of fields and types.
const DERIVE_ATTRIBUTES: [&str; 18] = [
    "avg",
    "computed",
    "count",
    "denormalize",
    "document",
    "embed",
    "embedded",
    "index",
    "latest",
    "max",
    "min",
    "projection",
    "reference",
    "schema",
    "sequence",
    "snapshot",
    "sum",
    "tree",
];

/// Attributes of other derives with a name that is near a derive attribute.
const SIMILAR_FOREIGN_ATTRIBUTES: [&str; 1] = ["schemars"];

/// Returns whether an attribute is a misspelt derive attribute. rustc reports the misspelt attribute, so an error about a missing
/// setting would only repeat the mistake.
pub(crate) fn is_misspelt(attrs: &[Attribute]) -> bool {
    let names = attrs.iter().filter_map(|attr| attr.path().get_ident());
    names.map(ToString::to_string).any(|name| {
        // `avg`, `max`, `min` and `tree` are near too many attributes of other derives, such as `arg`.
        let is_near = |known: &&str| {
            !["avg", "max", "min", "tree"].contains(known)
                && (1..=name.len() / 3).contains(&damerau_levenshtein(&name, known))
        };
        let is_known = |known: &[&str]| known.contains(&name.as_str());
        !is_known(&DERIVE_ATTRIBUTES)
            && !is_known(&SIMILAR_FOREIGN_ATTRIBUTES)
            && DERIVE_ATTRIBUTES.iter().any(is_near)
    })
}

/// Returns the known name with the smallest edit distance. A short form such as `max` for `maximum` counts as equal.
fn nearest_name<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
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
    let nearest = known
        .iter()
        .copied()
        .filter(|other| distance(other) <= name.len() / 3);
    nearest.min_by_key(|other| distance(other))
}

#[cfg(test)]
mod tests {
    use super::nearest_name;

    #[test]
    fn typos_are_near_and_other_words_are_not() {
        let known = [
            "collection",
            "insert_struct",
            "max",
            "on_delete",
            "unbounded",
            "sync",
        ];
        for (name, expected) in [
            ("colection", Some("collection")),
            ("collecton", Some("collection")),
            ("insert_sturct", Some("insert_struct")),
            ("maximum", Some("max")),
            ("unbound", Some("unbounded")),
            ("ondelete", Some("on_delete")),
            ("snyc", Some("sync")),
            ("unique", None),
            ("name", None),
        ] {
            assert_eq!(nearest_name(name, &known), expected, "{name}");
        }
    }
}
