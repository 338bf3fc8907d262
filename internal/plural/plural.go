// Package plural guesses the plurals of kinds, which are the names of their resources.
package plural

import (
	"slices"
	"strings"
	"unicode"
)

// Of guesses the plural of a kind, in lower case. It takes the plural of the last word, by
// the rules of English and the exceptions that are likely in kinds.
func Of(kind string) string {
	words := lastWord(kind)
	lower := strings.ToLower(kind)
	word := strings.ToLower(words)
	stem := strings.TrimSuffix(lower, word)
	return stem + pluralOf(word)
}

// lastWord returns the last word of a name: Set of ReplicaSet, DNS of NodeLocalDNS.
func lastWord(kind string) string {
	runes := []rune(kind)
	for i := len(runes) - 1; i > 0; i-- {
		if unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			return string(runes[i:])
		}
	}
	return kind
}

var (
	unchanged = []string{
		"data", "endpoints", "equipment", "information", "kubernetes", "metadata", "news", "series", "sheep", "species",
		"redis",
	}
	irregular = map[string]string{
		"child": "children", "person": "people", "mouse": "mice", "foot": "feet", "tooth": "teeth", "goose": "geese",
		"quiz": "quizzes",
	}
	oes = []string{"cargo", "domino", "echo", "embargo", "hero", "mosquito", "potato", "tomato", "torpedo", "veto"}
	ves = map[string]string{
		"calf": "calves", "half": "halves", "knife": "knives", "leaf": "leaves", "life": "lives", "loaf": "loaves",
		"shelf": "shelves", "thief": "thieves", "wife": "wives", "wolf": "wolves",
	}
)

func pluralOf(word string) string {
	if p, ok := irregular[word]; ok {
		return p
	}
	if p, ok := ves[word]; ok {
		return p
	}
	before := func(suffix string) byte {
		if i := len(word) - len(suffix) - 1; i >= 0 {
			return word[i]
		}
		return 0
	}
	ends := func(suffixes ...string) bool {
		return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(word, s) })
	}
	switch {
	case slices.Contains(unchanged, word):
		return word
	case slices.Contains(oes, word):
		return word + "es"
	case ends("sis"): // analysis, basis, crisis
		return strings.TrimSuffix(word, "is") + "es"
	case ends("s", "x", "z", "ch", "sh"):
		return word + "es"
	case ends("y") && before("y") != 0 && !strings.ContainsRune("aeiou", rune(before("y"))):
		return strings.TrimSuffix(word, "y") + "ies"
	}
	return word + "s"
}
