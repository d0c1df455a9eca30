//! Fixtures: documents from JSON.

use serde::de::DeserializeOwned;

/// Reads the documents of a JSON array. An unknown field is an error, because it is probably a misspelled field.
pub(super) fn parse<I: DeserializeOwned>(json: &str) -> Result<Vec<I>, String> {
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let mut reader = serde_json::Deserializer::from_str(json);
    let tracked = serde_path_to_error::Deserializer::new(&mut reader, &mut track);
    let documents = serde_ignored::deserialize(tracked, |path| unknown.push(path.to_string()));
    let documents = match documents {
        Ok(documents) => documents,
        Err(error) => return Err(format!("{}: {error}", track.path())),
    };
    reader.end().map_err(|error| error.to_string())?;
    match unknown.as_slice() {
        [] => Ok(documents),
        paths => Err(format!(
            "fields that the type does not have: {}",
            paths.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Part {
        name: String,
        #[serde(default)]
        price: i64,
    }

    #[test]
    fn errors_name_the_path() {
        let part = Part {
            name: "wheel".into(),
            price: 5,
        };
        assert_eq!(
            parse(r#"[{ "name": "wheel", "price": 5 }]"#),
            Ok(vec![part])
        );
        let error = |json| parse::<Part>(json).unwrap_err();
        assert_eq!(
            error(r#"[{ "name": "wheel", "prize": 5 }]"#),
            "fields that the type does not have: 0.prize"
        );
        let wrong_type = error(r#"[{ "name": "wheel" }, { "name": "axle", "price": "five" }]"#);
        assert!(
            wrong_type.starts_with("[1].price: invalid type: string"),
            "{wrong_type}"
        );
        assert!(error(r#"{ "name": "wheel" }"#).contains("invalid type: map"));
        assert!(error("[] []").contains("trailing characters"));
    }
}
