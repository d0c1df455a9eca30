use odm::{Document, Filter, Pattern, backend::operation};

use crate::{
    Fixture,
    models::{Db, Post, Status},
};

/// Inserts five posts that differ in every tested field.
async fn blog(fixture: &Fixture) -> Db {
    let db = Db::with_backend(fixture.backend());
    let mut posts = vec![
        Post::new(1, "alex", &["rust", "db"])
            .comment("jane", 3)
            .comment("joe", 9),
        Post::new(2, "alex", &["go"])
            .comment("jane", 9)
            .comment("joe", 3),
        Post::new(3, "Alexa", &[]),
        Post::new(4, "b.c", &["rust"]).comment("joe", 1),
        Post::new(5, "$x", &["a", "m", "z"]),
    ];
    posts[1].status = Status::Draft;
    posts[1].subtitle = Some("second".into());
    posts[2].rating = Some(4.5);
    posts[3].scores.insert("fun".into(), 7);
    for post in &mut posts {
        post.votes = post.id * 10;
    }
    db.insert_many(posts).await.unwrap();
    db
}

async fn ids(db: &Db, filter: impl FnOnce(odm::Fields<Post>) -> Filter<Post>) -> Vec<i64> {
    let posts = db
        .find::<Post>()
        .filter(filter)
        .sort(|p| p.id().asc())
        .all()
        .await
        .unwrap();
    posts.iter().map(|post| post.id).collect()
}

pub async fn comparisons(fixture: Fixture) {
    let db = blog(&fixture).await;
    assert_eq!(ids(&db, |p| p.votes().eq(30)).await, [3]);
    assert_eq!(ids(&db, |p| p.votes().ne(30)).await, [1, 2, 4, 5]);
    assert_eq!(ids(&db, |p| p.votes().gt(30)).await, [4, 5]);
    assert_eq!(ids(&db, |p| p.votes().gte(30)).await, [3, 4, 5]);
    assert_eq!(ids(&db, |p| p.votes().lt(30)).await, [1, 2]);
    assert_eq!(ids(&db, |p| p.votes().lte(30)).await, [1, 2, 3]);
    assert_eq!(ids(&db, |p| p.votes().between(20, 40)).await, [2, 3, 4]);
    assert_eq!(ids(&db, |p| p.votes().is_in([10, 50, 70])).await, [1, 5]);
    assert_eq!(ids(&db, |p| p.votes().not_in([10, 50])).await, [2, 3, 4]);
    assert_eq!(ids(&db, |p| p.status().eq(Status::Draft)).await, [2]);
    assert_eq!(
        ids(&db, |p| p.author().is_in(["alex", "$x"])).await,
        [1, 2, 5]
    );
}

pub async fn and_or_not(fixture: Fixture) {
    let db = blog(&fixture).await;
    assert_eq!(
        ids(&db, |p| p.author().eq("alex") & p.votes().gt(10)).await,
        [2]
    );
    assert_eq!(
        ids(&db, |p| p.id().eq(3) | p.id().eq(5) | p.id().eq(9)).await,
        [3, 5]
    );
    assert_eq!(ids(&db, |p| !p.author().eq("alex")).await, [3, 4, 5]);
    assert_eq!(
        ids(&db, |p| !(p.author().eq("alex") & p.votes().gt(10))).await,
        [1, 3, 4, 5]
    );
    assert_eq!(
        ids(&db, |p| (p.id().lt(3) | p.id().gt(4)) & !p.id().eq(1)).await,
        [2, 5]
    );
    assert_eq!(
        ids(&db, |p| p.votes().gt(10)
            & p.votes().gt(20)
            & p.votes().gt(30))
        .await,
        [4, 5]
    );
    assert_eq!(ids(&db, |_| Filter::all()).await, [1, 2, 3, 4, 5]);
    assert_eq!(ids(&db, |_| !Filter::all()).await, [0_i64; 0]);
}

pub async fn an_absent_optional_filter_matches_all(fixture: Fixture) {
    let db = blog(&fixture).await;
    let count = |tag: Option<&'static str>| {
        let db = db.clone();
        async move {
            let query = db
                .find::<Post>()
                .filter(|p| tag.map(|tag| p.tags().contains(tag)));
            query.count().await.unwrap()
        }
    };
    assert_eq!(count(Some("rust")).await, 2);
    assert_eq!(count(None).await, 5);
}

pub async fn missing_null_and_exists(fixture: Fixture) {
    let db = blog(&fixture).await;
    // `Post` omits `subtitle` if the value is `None`, and stores `rating` as null.
    assert_eq!(ids(&db, |p| p.subtitle().exists()).await, [2]);
    assert_eq!(ids(&db, |p| p.rating().exists()).await, [1, 2, 3, 4, 5]);
    assert_eq!(ids(&db, |p| p.subtitle().is_some()).await, [2]);
    assert_eq!(ids(&db, |p| p.subtitle().is_none()).await, [1, 3, 4, 5]);
    assert_eq!(ids(&db, |p| p.rating().is_some()).await, [3]);
    assert_eq!(ids(&db, |p| p.rating().eq(4.5)).await, [3]);
    assert_eq!(ids(&db, |p| p.rating().eq(None)).await, [1, 2, 4, 5]);
    assert_eq!(ids(&db, |p| p.rating().gt(4.0)).await, [3]);
}

pub async fn prefixes_and_patterns(fixture: Fixture) {
    let db = blog(&fixture).await;
    assert_eq!(ids(&db, |p| p.author().starts_with("alex")).await, [1, 2]);
    assert_eq!(ids(&db, |p| p.author().starts_with("b.")).await, [4]);
    assert_eq!(ids(&db, |p| p.author().starts_with("b?")).await, [0_i64; 0]);
    assert_eq!(ids(&db, |p| p.author().starts_with("$")).await, [5]);
    assert_eq!(ids(&db, |p| p.author().matches("^al.x$")).await, [1, 2]);
    assert_eq!(
        ids(&db, |p| p
            .author()
            .matches(Pattern::new("^alex").ignore_case()))
        .await,
        [1, 2, 3]
    );
    assert_eq!(
        ids(&db, |p| p.author().matches(Pattern::literal("."))).await,
        [4]
    );
    assert_eq!(
        ids(&db, |p| p.author().matches(Pattern::literal("a\0b"))).await,
        [0_i64; 0]
    );
    assert_eq!(ids(&db, |p| p.tags().starts_with("ru")).await, [1, 4]);
}

pub async fn texts_without_case_and_parts_of_texts(fixture: Fixture) {
    let db = blog(&fixture).await;
    let none = [0_i64; 0];
    db.insert(Post::new(6, "Émile.*", &["Rust"])).await.unwrap();
    assert_eq!(
        ids(&db, |p| p.author().eq_ignore_case("ALEX")).await,
        [1, 2]
    );
    // The whole text, and no pattern.
    assert_eq!(ids(&db, |p| p.author().eq_ignore_case("ale")).await, none);
    assert_eq!(ids(&db, |p| p.author().eq_ignore_case("a.ex")).await, none);
    assert_eq!(
        ids(&db, |p| p.author().eq_ignore_case("éMILE.*")).await,
        [6]
    );
    assert_eq!(
        ids(&db, |p| p.author().starts_with_ignore_case("aLE")).await,
        [1, 2, 3]
    );
    assert_eq!(
        ids(&db, |p| p.author().starts_with_ignore_case("lex")).await,
        none
    );
    assert_eq!(
        ids(&db, |p| p.author().contains_text("lex")).await,
        [1, 2, 3]
    );
    assert_eq!(ids(&db, |p| p.author().contains_text("LEX")).await, none);
    assert_eq!(ids(&db, |p| p.author().contains_text("e.*")).await, [6]);
    assert_eq!(ids(&db, |p| p.subtitle().contains_text("con")).await, [2]);
    // In an array, any element matches.
    assert_eq!(
        ids(&db, |p| p.tags().eq_ignore_case("RUST")).await,
        [1, 4, 6]
    );
    // Every type of text is an argument.
    let text = String::from("alex");
    for filter in [
        Post::fields().author().starts_with(&text),
        Post::fields().author().starts_with(text.clone()),
        Post::fields()
            .author()
            .starts_with(std::borrow::Cow::Borrowed("alex")),
    ] {
        assert_eq!(ids(&db, |_| filter).await, [1, 2]);
    }
}

pub async fn patterns_of_any_text_match_that_text_alone(fixture: Fixture) {
    let db = Db::with_backend(fixture.backend());
    let ascii = (0..128_u8).map(|c| format!("a{}Z", char::from(c)));
    let others = ["aéZ", "aÉZ", "az", "aZ\n", "\naZ", "xaxZ", "axZx", "<axZ>"];
    let texts: Vec<String> = ascii.chain(others.map(str::to_owned)).collect();
    let posts = (0..).zip(&texts).map(|(id, text)| Post::new(id, text, &[]));
    db.insert_many(posts).await.unwrap();
    let matching_ids = |predicate: &dyn Fn(&str) -> bool| -> Vec<i64> {
        let found = (0..).zip(&texts).filter(|(_, text)| predicate(text));
        found.map(|(id, _)| id).collect()
    };
    for text in &texts {
        let exact = Pattern::exact(text);
        let found = ids(&db, |p| p.author().matches(exact.clone())).await;
        assert_eq!(found, matching_ids(&|other| other == text), "{text:?}");
        let found = ids(&db, |p| {
            p.author().matches(exact.multi_line().ignore_case())
        })
        .await;
        let lower = text.to_lowercase();
        let same = matching_ids(&|other| other.to_lowercase() == lower);
        assert_eq!(found, same, "{text:?} without case");
        let quoted = Pattern::new(format!("(?x) ^ <? {} >? $", Pattern::escape(text)));
        let found = ids(&db, |p| p.author().matches(quoted)).await;
        let same = matching_ids(&|other| {
            let quoted = other
                .strip_prefix('<')
                .and_then(|rest| rest.strip_suffix('>'));
            [Some(other), quoted].contains(&Some(text)) || other.strip_suffix('\n') == Some(text)
        });
        assert_eq!(found, same, "{text:?} in a pattern");
    }
}

pub async fn any_element(fixture: Fixture) {
    let db = blog(&fixture).await;
    assert_eq!(ids(&db, |p| p.tags().eq("rust")).await, [1, 4]);
    assert_eq!(ids(&db, |p| p.tags().contains("rust")).await, [1, 4]);
    assert_eq!(ids(&db, |p| p.tags().excludes("rust")).await, [2, 3, 5]);
    assert_eq!(
        ids(&db, |p| p.tags().contains_all(["db", "rust"])).await,
        [1]
    );
    assert_eq!(ids(&db, |p| p.tags().has_len(1)).await, [2, 4]);
    assert_eq!(ids(&db, |p| p.tags().has_len(0)).await, [3]);
    assert_eq!(ids(&db, |p| p.comments().who().eq("jane")).await, [1, 2]);
    assert_eq!(ids(&db, |p| p.tags().at(0).eq("rust")).await, [1, 4]);
    assert_eq!(ids(&db, |p| p.comments().at(1).votes().gt(5)).await, [1]);
    // Different comments may match the two conditions.
    assert_eq!(
        ids(&db, |p| p.comments().who().eq("jane")
            & p.comments().votes().gt(5))
        .await,
        [1, 2]
    );
}

pub async fn the_same_element(fixture: Fixture) {
    let db = blog(&fixture).await;
    assert_eq!(
        ids(&db, |p| p
            .comments()
            .any(|c| c.who().eq("jane") & c.votes().gt(5)))
        .await,
        [2]
    );
    assert_eq!(
        ids(&db, |p| p
            .comments()
            .any(|c| c.who().eq("joe") & !c.votes().gt(5)))
        .await,
        [2, 4]
    );
    assert_eq!(
        ids(&db, |p| p
            .comments()
            .any(|c| c.who().eq("x") | c.votes().eq(1)))
        .await,
        [4]
    );
    assert_eq!(
        ids(&db, |p| !p.comments().any(|c| c.votes().gt(0))).await,
        [3, 5]
    );
    // Elements that are plain values.
    assert_eq!(
        ids(&db, |p| p.tags().any(|t| t.gt("b") & t.lt("n"))).await,
        [1, 2, 5]
    );
    assert_eq!(
        ids(&db, |p| p.tags().any(|t| t.gt("b") & t.lt("h"))).await,
        [1, 2]
    );
    assert_eq!(
        ids(&db, |p| p.tags().any(|t| t.eq("z") | t.eq("go"))).await,
        [2, 5]
    );
    assert_eq!(
        ids(&db, |p| p
            .tags()
            .any(|t| (t.eq("rust") | t.eq("m")) & t.lt("n")))
        .await,
        [5]
    );
    assert_eq!(
        ids(&db, |p| p.tags().any(|t| !t.eq("rust"))).await,
        [1, 2, 5]
    );
    assert_eq!(
        ids(&db, |p| p.tags().any(|t| !(t.eq("rust") | t.eq("db")))).await,
        [2, 5]
    );
    assert_eq!(
        ids(&db, |p| p
            .tags()
            .any(|t| t.starts_with("ru") & t.ne("rust")))
        .await,
        [0_i64; 0]
    );
}

pub async fn maps_by_key(fixture: Fixture) {
    let db = blog(&fixture).await;
    assert_eq!(ids(&db, |p| p.scores().key("fun").gt(3)).await, [4]);
    assert_eq!(ids(&db, |p| p.scores().contains_key("fun")).await, [4]);
    for key in ["a.b", "$where", "", "a\0b"] {
        let error = db
            .find::<Post>()
            .filter(|p| p.scores().key(key).eq(1))
            .all()
            .await
            .unwrap_err();
        assert_eq!(error.kind(), odm::ErrorKind::Invalid, "{key:?}: {error}");
    }
}

/// A filter that mixes conditions on an element and on fields of the element has no form in MongoDB.
pub async fn unsupported_element_filters_are_errors(fixture: Fixture) {
    let db = blog(&fixture).await;
    let comment = Post::new(0, "", &[]).comment("jane", 3).comments.remove(0);
    let mixed = db
        .find::<Post>()
        .filter(|p| p.comments().any(|c| c.eq(&comment) & c.votes().gt(1)));
    assert_eq!(
        mixed.all().await.unwrap_err().kind(),
        odm::ErrorKind::Invalid
    );
    // Separate filters on the element and on the fields are valid.
    assert_eq!(
        ids(&db, |p| p.comments().any(|c| c.eq(&comment))
            & p.comments().any(|c| c.votes().gt(1)))
        .await,
        [1]
    );
    let count = operation::CountOperation {
        collection: "posts".into(),
        filter: Default::default(),
        limit: None,
        options: Default::default(),
    };
    assert_eq!(db.backend().count(count).await.unwrap(), 5);
}
