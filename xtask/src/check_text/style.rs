//! Signs of comments that must be read twice, counted over all sources: `docs/style.md` has better
//! forms. The counts may only fall.

use super::comments::Comment;

/// First words of documentation that has no subject or verb.
const OPENINGS: [&str; 7] = ["What", "Whether", "Of", "As", "Those", "Whose", "Where"];

/// Unusual words for time, place and persons.
const WORDS: [&str; 7] = ["behind", "whoever", "nobody", "so many", "of which", "lies", "lie"];

/// A sign, and its limit over all sources.
struct Sign {
    what: &'static str,
    allowed: usize,
    /// Counts the sign in a line of a comment; `opens` is true for the first line of documentation.
    count: fn(text: &str, opens: bool) -> usize,
}

const SIGNS: [Sign; 2] = [
    Sign { what: "documentation without a subject or verb", allowed: 1, count: openings },
    Sign { what: "words that have usual ones", allowed: 1, count: words },
];

fn openings(text: &str, opens: bool) -> usize {
    let first = text.split_whitespace().next().unwrap_or_default();
    usize::from(opens && OPENINGS.contains(&first))
}

fn words(text: &str, _opens: bool) -> usize {
    let text = text.to_lowercase();
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let stands_alone = |start: usize, word: &str| {
        !text[..start].ends_with(is_letter) && !text[start + word.len()..].starts_with(is_letter)
    };
    let count = |word: &&str| text.match_indices(word).filter(|(at, _)| stands_alone(*at, word)).count();
    WORDS.iter().map(count).sum()
}

/// Returns the lines of comments with their numbers, and whether each opens documentation.
fn comments(source: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut in_documentation = false;
    source.lines().enumerate().filter_map(move |(at, line)| {
        let Some(comment) = Comment::of(line) else {
            in_documentation = false;
            return None;
        };
        let text = comment.text.trim();
        let is_text = comment.is_documentation() && !text.is_empty();
        let opens = is_text && !in_documentation;
        in_documentation = is_text;
        Some((at + 1, text, opens))
    })
}

/// Returns every occurrence of a sign that exceeds its limit, and every limit that exceeds its count.
pub(super) fn findings(sources: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for Sign { what, allowed, count } in &SIGNS {
        let lines = sources.iter().flat_map(|(shown, source)| {
            comments(source).flat_map(move |(line, text, opens)| {
                (0..count(text, opens)).map(move |_| format!("{shown}:{line}: {what}: {text}"))
            })
        });
        let lines: Vec<String> = lines.collect();
        match lines.len() {
            count if count == *allowed => {}
            count if count < *allowed => {
                found.push(format!("{what}: {count}, and {allowed} are allowed; lower the limit"));
            }
            count => {
                found.extend(lines);
                found.push(format!(
                    "{what}: {count}, and {allowed} are allowed; docs/style.md explains them"
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_counted() {
        let count = |source: &str| {
            comments(source).fold((0, 0), |(first, second), (_, text, opens)| {
                (first + openings(text, opens), second + words(text, opens))
            })
        };
        assert_eq!(
            count("/// Returns it.\n/// What else?\nfn it();\n/// Whether it is.\nfn is();\n"),
            (1, 0)
        );
        assert_eq!(count("//! Of rows.\n//!\n//! Of columns.\n// Of elements.\n"), (2, 0));
        assert_eq!(count("// It lies behind it, of which nobody relies.\nlet behind = 0;\n"), (0, 4));
    }

    #[test]
    fn a_count_that_is_not_the_limit_is_found() {
        let source = |text: &str| [("a.rs".to_owned(), text.to_owned())];
        let allowed: usize = SIGNS.iter().map(|sign| sign.allowed).sum();
        let many = "/// What lies behind.\n\n".repeat(allowed + 1);
        let found = findings(&source(&many));
        assert!(found[0].starts_with("a.rs:1: documentation without a subject"), "{found:?}");
        assert_eq!(found.iter().filter(|line| line.ends_with("explains them")).count(), 2);
    }
}
