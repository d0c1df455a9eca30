//! serde's `rename_all`.

/// A rule of `rename_all`, for the names of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

impl Rule {
    /// The rule that serde knows by this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "lowercase" => Self::Lower,
            "UPPERCASE" => Self::Upper,
            "PascalCase" => Self::Pascal,
            "camelCase" => Self::Camel,
            "snake_case" => Self::Snake,
            "SCREAMING_SNAKE_CASE" => Self::ScreamingSnake,
            "kebab-case" => Self::Kebab,
            "SCREAMING-KEBAB-CASE" => Self::ScreamingKebab,
            _ => return None,
        })
    }

    /// The stored name of a field; like serde, it takes the Rust name for snake case.
    pub(crate) fn field(self, name: &str) -> String {
        match self {
            Self::Lower | Self::Snake => name.to_owned(),
            Self::Upper | Self::ScreamingSnake => name.to_ascii_uppercase(),
            Self::Pascal => name
                .split('_')
                .map(|word| with_first(word, |c| c.to_ascii_uppercase()))
                .collect(),
            Self::Camel => with_first(&Self::Pascal.field(name), |c| c.to_ascii_lowercase()),
            Self::Kebab => name.replace('_', "-"),
            Self::ScreamingKebab => name.to_ascii_uppercase().replace('_', "-"),
        }
    }
}

fn with_first(word: &str, change: impl Fn(char) -> char) -> String {
    let mut chars = word.chars();
    chars.next().map(change).into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::Rule;

    #[test]
    fn fields_are_named_as_serde_names_them() {
        for (rule, name) in [
            ("lowercase", "first_name_2"),
            ("UPPERCASE", "FIRST_NAME_2"),
            ("PascalCase", "FirstName2"),
            ("camelCase", "firstName2"),
            ("snake_case", "first_name_2"),
            ("SCREAMING_SNAKE_CASE", "FIRST_NAME_2"),
            ("kebab-case", "first-name-2"),
            ("SCREAMING-KEBAB-CASE", "FIRST-NAME-2"),
        ] {
            assert_eq!(
                Rule::parse(rule).unwrap().field("first_name_2"),
                name,
                "{rule}"
            );
        }
        assert_eq!(Rule::Camel.field("__x"), "x");
    }
}
