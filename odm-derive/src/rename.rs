//! serde's `rename_all`.

/// A rule of `rename_all`, for the names of fields and variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenameRule {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

impl RenameRule {
    /// Returns the rule with serde's name.
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

    /// Returns the stored name of a field. Like serde, expects a name in snake case.
    pub(crate) fn rename_field(self, name: &str) -> String {
        match self {
            Self::Lower | Self::Snake => name.to_owned(),
            Self::Upper | Self::ScreamingSnake => name.to_ascii_uppercase(),
            Self::Pascal => name
                .split('_')
                .map(|word| with_first(word, |c| c.to_ascii_uppercase()))
                .collect(),
            Self::Camel => with_first(&Self::Pascal.rename_field(name), |c| c.to_ascii_lowercase()),
            Self::Kebab => name.replace('_', "-"),
            Self::ScreamingKebab => name.to_ascii_uppercase().replace('_', "-"),
        }
    }

    /// Returns the stored name of a variant. Like serde, expects a name in Pascal case.
    pub(crate) fn rename_variant(self, name: &str) -> String {
        match self {
            Self::Pascal => name.to_owned(),
            Self::Lower => name.to_ascii_lowercase(),
            Self::Upper => name.to_ascii_uppercase(),
            Self::Camel => with_first(name, |c| c.to_ascii_lowercase()),
            Self::Snake => {
                let mut snake = String::new();
                for (i, c) in name.char_indices() {
                    if i > 0 && c.is_uppercase() {
                        snake.push('_');
                    }
                    snake.push(c.to_ascii_lowercase());
                }
                snake
            }
            Self::ScreamingSnake => Self::Snake.rename_variant(name).to_ascii_uppercase(),
            Self::Kebab => Self::Snake.rename_variant(name).replace('_', "-"),
            Self::ScreamingKebab => Self::ScreamingSnake.rename_variant(name).replace('_', "-"),
        }
    }
}

/// Returns the method name of a variant in snake case. A run of capitals is one word.
pub(crate) fn method_name(variant: &str) -> String {
    let chars: Vec<_> = variant.chars().collect();
    let mut method = String::new();
    for (i, &c) in chars.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| chars.get(i));
        let starts = c.is_uppercase()
            && before.is_some_and(|&before| {
                let next = chars.get(i + 1);
                before != '_' && (!before.is_uppercase() || next.is_some_and(|c| c.is_lowercase()))
            });
        if starts {
            method.push('_');
        }
        method.extend(c.to_lowercase());
    }
    method
}

fn with_first(word: &str, change: impl Fn(char) -> char) -> String {
    let mut chars = word.chars();
    chars.next().map(change).into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::{RenameRule, method_name};

    #[test]
    fn method_names_are_words() {
        for (variant, name) in [
            ("Card", "card"),
            ("BankTransfer", "bank_transfer"),
            ("HTTPServer", "http_server"),
            ("V2", "v2"),
            ("Iso8601Date", "iso8601_date"),
            ("A_b", "a_b"),
            ("A_B", "a_b"),
            ("lower", "lower"),
        ] {
            assert_eq!(method_name(variant), name, "{variant}");
        }
    }

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
                RenameRule::parse(rule)
                    .unwrap()
                    .rename_field("first_name_2"),
                name,
                "{rule}"
            );
        }
        assert_eq!(RenameRule::Camel.rename_field("__x"), "x");
    }
}
