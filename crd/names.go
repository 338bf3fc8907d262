package crd

import (
	"slices"
	"strings"
	"unicode"
)

// plural guesses the plural of a kind. It takes the plural of the last word, by the rules
// of English and the exceptions that are likely in kinds.
func plural(kind string) string {
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
	unchanged = []string{"data", "endpoints", "equipment", "information", "kubernetes", "metadata", "news", "series", "sheep", "species", "redis"}
	irregular = map[string]string{"child": "children", "person": "people", "mouse": "mice", "foot": "feet", "tooth": "teeth", "goose": "geese", "quiz": "quizzes"}
	oes       = []string{"cargo", "domino", "echo", "embargo", "hero", "mosquito", "potato", "tomato", "torpedo", "veto"}
	ves       = map[string]string{"calf": "calves", "half": "halves", "knife": "knives", "leaf": "leaves", "life": "lives", "loaf": "loaves", "shelf": "shelves", "thief": "thieves", "wife": "wives", "wolf": "wolves"}
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

// nearest returns the candidate that is most similar to word, or "" if none is similar.
func nearest(word string, candidates []string) string {
	best, distance := "", 1+max(1, len(word)/3)
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// didYouMean returns the end of an error message about an unknown word.
func didYouMean(word string, candidates []string) string {
	if c := nearest(word, candidates); c != "" {
		return ": did you mean " + c + "?"
	}
	return ""
}

// editDistance counts the letters to insert, delete, replace or swap with their neighbour
// that turn a into b.
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			replace := rows[i-1][j-1]
			if s[i-1] != t[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}
