// Package nearest finds the word that somebody meant.
package nearest

import "strings"

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

// DidYouMean returns the end of an error message about an unknown word.
func DidYouMean(word string, candidates []string) string {
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
