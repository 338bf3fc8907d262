package source

import "strings"

// commentText returns the text of comments. It leaves out comment marks, lines for tools
// (//nolint, +kubebuilder), and everything after a line of three dashes. It joins the
// lines of a paragraph. A line that is indented, or that begins with a dash or a star,
// stays a line of its own.
func commentText(group []string) string {
	var lines []string
	for _, c := range group {
		if body, ok := strings.CutPrefix(c, "//"); ok {
			if isDirective(body) {
				continue
			}
			lines = append(lines, body)
			continue
		}
		body := strings.TrimSuffix(strings.TrimPrefix(c, "/*"), "*/")
		lines = append(lines, strings.Split(body, "\n")...)
	}
	var b strings.Builder
	separator := ""
	for _, line := range lines {
		line = strings.TrimRight(strings.TrimPrefix(line, " "), " \t\r")
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "---":
			return b.String()
		case strings.HasPrefix(trimmed, "+"):
			continue
		case trimmed == "":
			if b.Len() > 0 {
				separator = "\n\n"
			}
			continue
		case separator == " " && (line != trimmed || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ")):
			separator = "\n"
		}
		b.WriteString(separator)
		if separator == "\n" || separator == "\n\n" {
			b.WriteString(line)
		} else {
			b.WriteString(trimmed)
		}
		separator = " "
	}
	return b.String()
}

// isDirective reports whether a comment is for tools, such as //go:embed. It follows
// go/ast.
func isDirective(body string) bool {
	colon := strings.Index(body, ":")
	if colon <= 0 || colon+1 >= len(body) || body[colon+1] == ' ' {
		return strings.HasPrefix(body, "nolint")
	}
	for _, c := range body[:colon] {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
