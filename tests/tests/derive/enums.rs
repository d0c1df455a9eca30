//! Queries on enum variants use the names that serde writes, for every representation and every renaming rule.

use odm::{Database, Filter, prelude::*, schema::Contains};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
#[serde(rename_all = "camelCase")]
struct Inner {
    in_side: i64,
}

/// Returns the sorted ids of the documents that match each condition.
async fn ids_per_filter<M: Document<Id = i64>, S: Contains<M>>(
    db: &Database<S>,
    conditions: impl IntoIterator<Item = Filter<M>>,
) -> Vec<Vec<i64>> {
    let mut all = Vec::new();
    for condition in conditions {
        let models = db.find::<M>().filter(|_| condition).all().await.unwrap();
        let mut ids: Vec<_> = models.iter().map(|model| *model.id()).collect();
        ids.sort_unstable();
        all.push(ids);
    }
    all
}

/// Tests an enum in one representation and renaming rule, with a document for each variant. Every condition must find exactly the
/// documents of its variant.
macro_rules! follows_serde {
    ($($test:ident: $($serde:meta)*;)*) => {$(
        #[tokio::test]
        async fn $test() {
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
            $(#[serde($serde)])*
            #[expect(non_camel_case_types, reason = "a raw identifier")]
            enum Choice {
                Unit,
                HTTPServer {
                    two_words: i64,
                    #[serde(rename = "given")]
                    third: i64,
                },
                BankTransfer(Inner),
                #[serde(rename = "other.name-$")]
                RenamedUnit,
                #[serde(rename = "other-name")]
                Renamed { x_y: i64, #[embed] inner: Inner },
                #[serde(rename_all = "SCREAMING-KEBAB-CASE")]
                OwnRule { two_words: i64 },
                r#type { r#match: i64 },
                Empty {},
                Default { #[serde(default, skip_serializing_if = "Option::is_none")] perhaps: Option<i64> },
                #[serde(skip)]
                #[expect(dead_code, reason = "it is not stored")]
                Skipped(()),
            }

            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
            #[document(collection = "models")]
            struct Model {
                #[serde(rename = "_id")]
                id: i64,
                #[embed]
                choice: Choice,
                #[embed]
                perhaps: Option<Choice>,
                #[embed(max = 3)]
                several: Vec<Choice>,
            }
            #[derive(Schema)]
            #[schema(models(Model))]
            struct Models;

            let db = Database::<Models>::open("memory:").await.unwrap();
            let choices = [
                Choice::Unit,
                Choice::HTTPServer { two_words: 1, third: 2 },
                Choice::BankTransfer(Inner { in_side: 3 }),
                Choice::RenamedUnit,
                Choice::Renamed { x_y: 4, inner: Inner { in_side: 5 } },
                Choice::OwnRule { two_words: 6 },
                Choice::r#type { r#match: 7 },
                Choice::Empty {},
                Choice::Default { perhaps: Some(8) },
            ];
            let models: Vec<_> = (0..).zip(choices.clone()).map(|(id, choice)| Model {
                id,
                perhaps: Some(choice.clone()),
                several: vec![choice.clone(), Choice::Unit],
                choice,
            }).collect();
            db.insert_many(models.clone()).await.unwrap();
            assert_eq!(db.find::<Model>().sort(|m| m.id().asc()).all().await.unwrap(), models);

            let only = |n: usize| (0..n as i64).map(|id| vec![id]).collect::<Vec<_>>();
            let c = Model::fields().choice();
            let predicates = [
                c.is_unit(), c.is_http_server(), c.is_bank_transfer(), c.is_renamed_unit(), c.is_renamed(), c.is_own_rule(),
                c.is_type(), c.is_empty(), c.is_default(),
            ];
            assert_eq!(ids_per_filter(&db, predicates).await, only(9), "{:?}", Model::fields().choice().is_http_server());
            let equalities = choices.iter().map(|choice| c.eq(choice));
            assert_eq!(ids_per_filter(&db, equalities).await, only(9));

            let of = [
                c.http_server(|s| s.two_words().eq(1) & s.third().eq(2)),
                c.bank_transfer(|t| t.in_side().eq(3)),
                c.renamed(|r| r.x_y().eq(4) & r.inner().in_side().eq(5)),
                c.own_rule(|o| o.two_words().eq(6)),
                c.r#type(|t| t.r#match().eq(7)),
                c.default(|d| d.perhaps().eq(8)),
                c.default(|_| None),
            ];
            let expected = [1, 2, 4, 5, 6, 8, 8].map(|id| vec![id]);
            assert_eq!(ids_per_filter(&db, of).await, expected);
            let p = Model::fields().perhaps();
            let of = [
                p.is_http_server(),
                p.bank_transfer(|t| t.in_side().eq(3)),
                p.bank_transfer(|t| !t.in_side().eq(3)),
            ];
            assert_eq!(ids_per_filter(&db, of).await, [vec![1], vec![2], vec![]]);
            let s = Model::fields().several();
            let of = [
                s.is_http_server(),
                s.any(|x| x.http_server(|s| s.two_words().eq(1) & s.third().eq(2))),
                s.at(0).http_server(|s| s.two_words().eq(1)),
                s.at(1).http_server(|s| s.two_words().eq(1)),
                s.any(|x| x.is_unit()) & s.any(|x| x.is_empty()),
            ];
            assert_eq!(ids_per_filter(&db, of).await, [vec![1], vec![1], vec![1], vec![], vec![7]]);

            // An update uses the same names and leaves documents with different variants unchanged.
            let done = db.update_many::<Model>(|_| Filter::all())
                .set(|m| m.choice().http_server(|s| s.third()), 20)
                .await;
            assert_eq!(done.unwrap().matched, 1);
            let done = db.update::<Model>(2).set(|m| m.choice().bank_transfer(|t| t.in_side()), 30).await;
            assert!(done.unwrap().is_applied());
            for id in [0, 1, 3, 4, 5, 6, 7, 8] {
                let done = db.update::<Model>(id).set(|m| m.choice().bank_transfer(|t| t.in_side()), 31).await;
                assert!(!done.unwrap().is_applied(), "{id}");
            }
            let mut expected = models;
            expected[1].choice = Choice::HTTPServer { two_words: 1, third: 20 };
            expected[2].choice = Choice::BankTransfer(Inner { in_side: 30 });
            assert_eq!(db.find::<Model>().sort(|m| m.id().asc()).all().await.unwrap(), expected);
        }
    )*};
}

follows_serde! {
    external:;
    external_lowercase: rename_all = "lowercase" rename_all_fields = "lowercase";
    external_uppercase: rename_all = "UPPERCASE" rename_all_fields = "UPPERCASE";
    external_pascal_case: rename_all = "PascalCase" rename_all_fields = "PascalCase";
    external_camel_case: rename_all = "camelCase" rename_all_fields = "camelCase";
    external_snake_case: rename_all = "snake_case" rename_all_fields = "snake_case";
    external_screaming_snake_case: rename_all = "SCREAMING_SNAKE_CASE" rename_all_fields = "SCREAMING_SNAKE_CASE";
    external_kebab_case: rename_all = "kebab-case" rename_all_fields = "kebab-case";
    external_screaming_kebab_case: rename_all = "SCREAMING-KEBAB-CASE" rename_all_fields = "SCREAMING-KEBAB-CASE";
    internal: tag = "kind";
    internal_camel_case: tag = "kind" rename_all = "camelCase" rename_all_fields = "kebab-case";
    internal_screaming_kebab_case: tag = "the kind" rename_all = "SCREAMING-KEBAB-CASE" rename_all_fields = "camelCase";
    adjacent: tag = "t" content = "c";
    adjacent_snake_case: tag = "t" content = "c" rename_all = "snake_case" rename_all_fields = "PascalCase";
    adjacent_kebab_case: tag = "c" content = "t" rename_all = "kebab-case" rename_all_fields = "UPPERCASE";
}

/// Contents of variants: type parameters, recursion, tuples, arrays, maps and references.
mod shapes {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
    #[serde(bound = "", tag = "t", content = "c")]
    enum Choice<T: Embedded> {
        One(T),
        Many(#[embed(max = 2)] Vec<T>),
        Pair(T, i64),
        Named {
            #[embed(max = 1)]
            values: Vec<T>,
        },
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
    enum Rule {
        Always,
        Text(String),
        At(DateTime, ObjectId),
        By(#[reference] Ref<Model>),
        Not {
            #[embed(max = 1)]
            rule: Vec<Self>,
        },
        And(#[embed(max = 3)] Vec<Rule>),
        Scores(BTreeMap<String, i64>),
        Choice(Choice<Inner>),
        Nothing(),
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
    #[document(collection = "models")]
    struct Model {
        #[serde(rename = "_id")]
        id: i64,
        #[embed]
        rule: Rule,
        #[embed]
        choice: Choice<Inner>,
    }

    #[derive(Schema)]
    #[schema(models(Model))]
    struct Models;

    fn inner(in_side: i64) -> Inner {
        Inner { in_side }
    }

    #[tokio::test]
    async fn every_variant_field_can_be_queried_and_updated() {
        let db = Database::<Models>::open("memory:").await.unwrap();
        let (now, id) = (DateTime::now(), ObjectId::new());
        let rules = [
            Rule::Always,
            Rule::Text("abc".into()),
            Rule::At(now, id),
            Rule::By(Ref::new(3)),
            Rule::Not {
                rule: vec![Rule::Text("abc".into())],
            },
            Rule::And(vec![Rule::Always, Rule::Text("x".into()), Rule::Nothing()]),
            Rule::Scores(BTreeMap::from([("a".into(), 7)])),
            Rule::Choice(Choice::One(inner(1))),
            Rule::Nothing(),
        ];
        let choices = [
            Choice::One(inner(1)),
            Choice::Many(vec![inner(1), inner(2)]),
            Choice::Pair(inner(1), 2),
            Choice::Named {
                values: vec![inner(1)],
            },
        ];
        for (id, rule) in (0..).zip(rules) {
            let choice = choices[id as usize % choices.len()].clone();
            let model = Model { id, rule, choice };
            assert_eq!(db.insert(model.clone()).await.unwrap(), model);
            assert_eq!(db.get::<Model>(id).await.unwrap(), model);
        }

        let r = Model::fields().rule();
        let of_rules = [
            r.text(|t| t.starts_with("ab")),
            r.at(|at, by| at.lte(now) & by.eq(id)),
            r.by(|by| by.eq(Ref::new(3))),
            r.not(|n| n.rule().any(|rule| rule.text(|t| t.eq("abc")))),
            r.and(|rules| rules.contains(Rule::Always) & rules.has_len(3)),
            r.and(|rules| rules.any(|rule| rule.is_always() | rule.text(|t| t.eq("y")))),
            r.and(|rules| rules.any(|rule| rule.is_nothing())),
            r.and(|rules| rules.any(|rule| rule.ne(Rule::Always) & !rule.is_text())),
            r.and(|rules| rules.any(|rule| rule.eq(Rule::Always) & rule.is_text())),
            r.and(|rules| rules.any(|rule| rule.eq(Rule::Always) | rule.is_text())),
            r.scores(|s| s.key("a").gte(7)),
            r.choice(|c| c.one(|one| one.in_side().eq(1))),
            r.choice(|c| c.is_many()),
            r.is_nothing(),
        ];
        let expected = [
            vec![1],
            vec![2],
            vec![3],
            vec![4],
            vec![5],
            vec![5],
            vec![5],
            vec![5],
            vec![],
            vec![5],
            vec![6],
            vec![7],
            vec![],
            vec![8],
        ];
        assert_eq!(ids_per_filter(&db, of_rules).await, expected);

        let c = Model::fields().choice();
        let of_choices = [
            c.one(|one| one.eq(inner(1))),
            c.many(|many| many.in_side().eq(2) & many.has_len(2)),
            c.pair(|inner, n| inner.in_side().eq(1) & n.eq(2)),
            c.named(|n| n.values().in_side().eq(1)),
        ];
        let expected = [vec![0, 4, 8], vec![1, 5], vec![2, 6], vec![3, 7]];
        assert_eq!(ids_per_filter(&db, of_choices).await, expected);

        // Every value inside a variant can be updated in place.
        let done = db
            .update_many::<Model>(|_| Filter::all())
            .inc(|m| m.choice().pair(|_, n| n), 5)
            .await;
        assert_eq!(done.unwrap().matched, 2);
        let done = db
            .update::<Model>(5)
            .pull(|m| m.choice().many(|many| many), inner(1))
            .set(|m| m.rule().and(|rules| rules.at(1).text(|t| t)), "y")
            .await;
        assert!(done.unwrap().is_applied());
        let model = db.get::<Model>(5).await.unwrap();
        assert_eq!(model.choice, Choice::Many(vec![inner(2)]));
        assert_eq!(
            model.rule,
            Rule::And(vec![Rule::Always, Rule::Text("y".into()), Rule::Nothing()])
        );
        // The maximum length of an array also holds inside a variant.
        let push = |value| {
            db.update::<Model>(5)
                .push(|m| m.choice().many(|many| many), inner(value))
        };
        assert!(push(3).await.unwrap().is_applied());
        let error = push(4).await.unwrap_err();
        assert_eq!(error.kind(), odm::ErrorKind::TooManyElements);
        assert_eq!(error.path(), Some("choice.c"));
        let long = Choice::Many(vec![inner(1), inner(2), inner(3)]);
        let error = db.update::<Model>(5).set(|m| m.choice(), &long).await;
        assert_eq!(error.unwrap_err().kind(), odm::ErrorKind::TooManyElements);
        let error = db
            .insert(Model {
                id: 99,
                rule: Rule::Always,
                choice: long,
            })
            .await
            .unwrap_err();
        assert_eq!(error.kind(), odm::ErrorKind::TooManyElements);
        assert_eq!(error.path(), Some("choice.c"));
    }
}

/// serde's `other`: an unknown variant reads as the `other` variant, matches queries for that variant, and stays unchanged in
/// storage.
#[tokio::test]
async fn an_unknown_variant_reads_as_serde_other() {
    use odm::{
        backend::operation::{FindOperation, InsertOperation},
        bson::rawdoc,
    };

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
    #[serde(tag = "kind")]
    enum Event {
        Moved {
            x: i64,
        },
        Ended,
        #[serde(other)]
        Unknown,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
    #[document(collection = "logs")]
    struct Log {
        #[serde(rename = "_id")]
        id: i64,
        #[embed]
        last: Event,
        #[embed(max = 9)]
        events: Vec<Event>,
    }
    #[derive(Schema)]
    #[schema(models(Log))]
    struct Logs;

    let db = Database::<Logs>::open("memory:").await.unwrap();
    let insert = InsertOperation {
        collection: "logs".into(),
        documents: vec![
            rawdoc! { "_id": 1_i64, "last": { "kind": "Ended" }, "events": [{ "kind": "Moved", "x": 1_i64 }] },
            rawdoc! { "_id": 2_i64, "last": { "kind": "Paused", "for": 5 }, "events": [{ "kind": "Ended" }, { "kind": "Paused" }] },
        ],
        ordered: true,
        origin: Default::default(),
    };
    db.backend().insert(insert).await.unwrap();
    assert_eq!(db.get::<Log>(2).await.unwrap().last, Event::Unknown);

    let l = Log::fields();
    let conditions = [
        l.last().is_unknown(),
        !l.last().is_unknown(),
        l.events().any(|e| e.is_unknown()),
        l.events().any(|e| !e.is_unknown()),
        l.events()
            .any(|e| e.is_unknown() | e.moved(|m| m.x().eq(1))),
    ];
    assert_eq!(
        ids_per_filter(&db, conditions).await,
        [vec![2], vec![1], vec![2], vec![1, 2], vec![1, 2]]
    );

    // A save of a different field leaves the unknown variant unchanged.
    let mut edited = db.edit::<Log>(2).await.unwrap();
    edited.events[0] = Event::Moved { x: 2 };
    db.save(&mut edited).await.unwrap();
    let stored = db
        .backend()
        .find(FindOperation {
            collection: "logs".into(),
            filter: rawdoc! { "_id": 2_i64 },
            projection: None,
            sort: None,
            limit: None,
            options: Default::default(),
        })
        .await
        .unwrap();
    let stored = odm::backend::read_to_end(stored).await.unwrap().remove(0);
    assert_eq!(
        stored,
        rawdoc! {
            "_id": 2_i64,
            "last": { "kind": "Paused", "for": 5 },
            "events": [{ "kind": "Moved", "x": 2_i64 }, { "kind": "Paused" }],
        }
    );
}

/// Values of a foreign type in tuple variants, alone and next to a second value.
#[tokio::test]
async fn native_values_in_tuples() {
    use chrono::{DateTime, Utc};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Embedded)]
    #[serde(tag = "kind", content = "value")]
    enum When {
        At(#[serde(with = "odm::native")] DateTime<Utc>),
        Between(
            #[serde(with = "odm::native")] DateTime<Utc>,
            #[serde(with = "odm::native")] Option<DateTime<Utc>>,
        ),
        Each(
            #[serde(with = "odm::native")]
            #[embed(max = 2)]
            Vec<DateTime<Utc>>,
        ),
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Document)]
    #[document(collection = "visits")]
    struct Visit {
        #[serde(rename = "_id")]
        id: i64,
        #[embed]
        when: When,
    }
    #[derive(Schema)]
    #[schema(models(Visit))]
    struct Site;

    let date = |secs: i64| DateTime::from_timestamp_millis(secs * 1000).unwrap();
    let db = Database::<Site>::open("memory:").await.unwrap();
    let all = [
        When::At(date(1)),
        When::Between(date(1), None),
        When::Each(vec![date(1), date(2)]),
    ];
    let visits: Vec<_> = (0..)
        .zip(all)
        .map(|(id, when)| Visit { id, when })
        .collect();
    db.insert_many(visits.clone()).await.unwrap();
    let sorted = db.find::<Visit>().sort(|v| v.id().asc());
    assert_eq!(sorted.all().await.unwrap(), visits);
    let w = Visit::fields().when();
    let conditions = [
        w.at(|at| at.lt(date(2))),
        w.between(|from, to| from.eq(date(1)) & to.is_none()),
        w.each(|each| each.contains(date(2))),
    ];
    assert_eq!(ids_per_filter(&db, conditions).await, [[0], [1], [2]]);
    let more = When::Each(vec![date(1); 3]);
    let error = db.insert(Visit { id: 3, when: more }).await.unwrap_err();
    assert_eq!(error.kind(), odm::ErrorKind::TooManyElements);
}
