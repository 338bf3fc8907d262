package main

import (
	"regexp"
	"slices"
	"strings"
)

// An oldWord is a phrase that this project does not use. The glossary has the field's
// words.
type oldWord struct {
	pattern *regexp.Regexp
	instead string
}

// oldWords returns the phrases. A word after a slash is a part of a name.
func oldWords() []oldWord { return oldWordList }

var oldWordList = []oldWord{
	{regexp.MustCompile(`(?i)(^|\s)((made|created) )?(anew|afresh)\b`), `"recreated" or "again"`},
	{regexp.MustCompile(`(?i)\bha(s|ve) not (the|an?|any|its)\b`), `"does not have" or "do not have"`},
	{regexp.MustCompile(`(?i)\bail(s|ing|ed)?\b`), `"fail"`},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) known of\b`), `"known about"`},
	{regexp.MustCompile(`(?i)\bnothing but\b`), `"only"`},
	{regexp.MustCompile(`(?i)\bbut for\b`), `"except for"`},
	{regexp.MustCompile(`(?i)\b(amiss|awry)\b`), `"wrong"`},
	{regexp.MustCompile(`(?i)\b(naught|nought|aught)\b`), `"nothing" or "anything"`},
	{regexp.MustCompile(`(?i)\bis no (number|integer|boolean|JSON|directory|multiple)\b`), `"is not"`},
	{
		regexp.MustCompile(`(?i)\b(lest|thence|whence|hitherto|henceforth|thereof|whereof|wherein|therein)\b`),
		"plain words",
	},
}

// headless returns the offsets of the words that begin a headless clause: a clause that is
// the subject or the object of its sentence and begins with a bare "what", "who" or "that
// which". A question is none, and neither is a clause that describes a person ("a user
// who") or asks for a noun ("what kind of object").
//
// It looks at words and not at grammar, so it can be wrong about a sentence. The limit of
// the check leaves room for that.
func headless(text string) []int {
	text = hideCode(text)
	var found []int
	for _, at := range clauseWord.FindAllStringIndex(text, -1) {
		begin, end := sentence(text, at[0])
		if strings.HasSuffix(strings.TrimRight(text[:end], `)"' `), "?") {
			continue
		}
		before, word, after := text[begin:at[0]], strings.ToLower(text[at[0]:at[1]]), text[at[1]:end]
		switch {
		case word == "what" && nounAfter.MatchString(after),
			(word == "who" || word == "whom") && person.MatchString(before):
			continue
		}
		found = append(found, at[0])
	}
	return found
}

var (
	clauseWord = regexp.MustCompile(`(?i)\b(what|whatever|who|whom|whoever|whomever|that which)\b`)

	// nounAfter matches a noun after "what", which then is no clause's head.
	nounAfter = regexp.MustCompile(`^ (kinds?|sorts?|types?|version|size|order|extent|degree)\b`)

	// person matches a person anywhere before "who" in a sentence, as in "a user who
	// reads, or who writes".
	person = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
		`users?`, `persons?`, `people`, `(some|any|every|no)(body|one| one)( else)?`, `ones?`, `those`, `others`,
		`readers?`, `writers?`, `authors?`, `reviewers?`, `callers?`, `owners?`, `developers?`, `programmers?`, `engineers?`,
		`administrators?`, `admins?`, `maintainers?`, `contributors?`, `strangers?`, `newcomers?`, `attackers?`, `members?`,
		`visitors?`, `operators?`, `teams?`, `colleagues?`,
	}, "|") + `)\b[^.;:]*$`)
)

// sentence returns the limits of the sentence around an offset.
func sentence(text string, at int) (begin, end int) {
	ends := sentenceEnd.FindAllStringIndex(text, -1)
	i, _ := slices.BinarySearchFunc(ends, at, func(e []int, at int) int { return e[1] - at - 1 })
	if i > 0 {
		begin = ends[i-1][1]
	}
	end = len(text)
	if i < len(ends) {
		end = ends[i][1]
	}
	return begin, end
}

// An end of a sentence is not the dot of "e.g." or of a file's name.
var sentenceEnd = regexp.MustCompile(`[^.\s][.?!]+[)"']*(\s|$)`)

// hideCode blanks code and short quotations. The offsets stay.
func hideCode(text string) string {
	return quoted.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("_", len(s)) })
}

var quoted = regexp.MustCompile("`[^`]*`|\"[^\"]{1,80}\"|“[^”]{1,80}”|\\[[A-Za-z.*]+\\]")
