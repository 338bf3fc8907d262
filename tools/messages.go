package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// messagesDoc is the document whose headings of the third level quote messages.
const messagesDoc = "docs/troubleshooting.md"

// checkMessages checks that each message that the document quotes is in the sources of
// the modules. A quoted message is a heading with one code span:
//
//	### `acquire lease …`
//
// The sign … stands for a verb of package fmt. The message may be a part of a text in the
// sources, because the document shows only the words that a reader recognizes.
//
// It also checks the reverse: the document quotes each error that names a thing to do, as
// "does not fit into a column: add columnPath" does. Operators have documents of their own.
//
// With -list, it prints the messages of the sources instead: the texts of errors and of
// log lines.
func checkMessages(_ context.Context, repo *Repo, args []string) error {
	flags := flag.NewFlagSet("messages", flag.ContinueOnError)
	list := flags.Bool("list", false, "print the texts of errors and log lines in the sources")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var all []message
	for _, m := range repo.Modules {
		found, err := readMessages(m.Dir)
		if err != nil {
			return fmt.Errorf("read messages: %w", err)
		}
		all = append(all, found...)
	}
	if *list {
		for _, m := range all {
			if m.shown {
				fmt.Printf("%s: %s\n", m.at, m.text)
			}
		}
		return nil
	}
	doc, err := os.ReadFile(filepath.Join(repo.Dir, filepath.FromSlash(messagesDoc)))
	if err != nil {
		return fmt.Errorf("read document: %w", err)
	}
	quotes := quotedMessages(string(doc))
	if len(quotes) == 0 {
		return fmt.Errorf("%s quotes no message", messagesDoc)
	}
	fmt.Printf("messages: %s quotes %d\n", messagesDoc, len(quotes))
	libraries := slices.DeleteFunc(slices.Clone(all), func(m message) bool {
		rel, err := filepath.Rel(filepath.Join(repo.Dir, "operators"), m.at.Filename)
		return err == nil && filepath.IsLocal(rel)
	})
	return errors.Join(missingMessages(quotes, all), unexplained(quotes, libraries))
}

// A message is a text in the sources, with … in place of the verbs of package fmt.
type message struct {
	at    token.Position
	text  string
	shown bool // the text of an error or of a log line
}

// readMessages returns the texts in the Go files below a directory, except those of tests
// and of other modules.
func readMessages(root string) ([]message, error) {
	var all []message
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if d.Name() == "testdata" || path != root && (err == nil || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, textsOf(files, file)...)
		return nil
	})
	return all, err
}

// textsOf returns the texts of a file. Texts that are added up are one text.
func textsOf(files *token.FileSet, file *ast.File) []message {
	var all []message
	shown := map[ast.Expr]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && shows(call) {
			for _, arg := range call.Args {
				shown[arg] = true
			}
		}
		e, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		text, ok := textOf(e)
		if ok {
			all = append(all, message{files.Position(e.Pos()), verb.ReplaceAllString(text, "…"), shown[e]})
		}
		return !ok // the parts of a text are no texts of their own
	})
	return all
}

// shows reports whether a call makes an error or a log line.
func shows(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if pkg, ok := f.X.(*ast.Ident); ok && (pkg.Name == "fmt" || pkg.Name == "errors") {
		return f.Sel.Name == "Errorf" || f.Sel.Name == "New"
	}
	return slices.Contains([]string{
		"Debug", "Info", "Warn", "Error", "Log", "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "Say",
	}, f.Sel.Name)
}

// verb matches a verb of package fmt.
var verb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?\d*(\.\d+)?[a-zA-Z]`)

// textOf returns the value of an expression that consists of texts. Other parts of a sum
// count as verbs, if there is a text beside them.
func textOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, leftOK := textOf(e.X)
		right, rightOK := textOf(e.Y)
		if !leftOK {
			left = "%v"
		}
		if !rightOK {
			right = "%v"
		}
		return left + right, leftOK || rightOK
	}
	return "", false
}

// quotedMessage matches a heading that quotes a message.
var quotedMessage = regexp.MustCompile("(?m)^### `(.+)`$")

func quotedMessages(doc string) []string {
	var all []string
	for _, m := range quotedMessage.FindAllStringSubmatch(doc, -1) {
		all = append(all, m[1])
	}
	return all
}

// remedy matches a text that names a thing to do after a colon or a semicolon.
var remedy = regexp.MustCompile(`[:;] (add|allow|build|call|check|choose|correct|create|declare|delete|end|give|grant|install|` +
	`make|name|pass|put|raise|remove|run|set|start|stop|use|write) [a-z]`)

// wraps matches the texts that wrap an error in the name of an action, such as
// "plan: write object: …".
var wraps = regexp.MustCompile(`: [a-z ]+( …)?: …$`)

var errUnexplained = errors.New("the message names a thing to do, and " + messagesDoc + " does not explain it")

// unexplained returns an error for each message that names a thing to do and is not quoted.
func unexplained(quotes []string, all []message) error {
	var wrong []error
	for _, m := range all {
		if !m.shown || !remedy.MatchString(m.text) || wraps.MatchString(m.text) {
			continue
		}
		if !slices.ContainsFunc(quotes, func(q string) bool { return strings.Contains(m.text, strings.Trim(q, "… ")) }) {
			wrong = append(wrong, fmt.Errorf("%s: %q: %w", m.at, m.text, errUnexplained))
		}
	}
	return errors.Join(wrong...)
}

var errNoMessage = errors.New("no text in the sources is or contains this message")

// missingMessages returns an error for each quoted message that is in no text.
func missingMessages(quotes []string, all []message) error {
	var wrong []error
	for _, q := range quotes {
		plain := strings.Trim(q, "… ")
		if plain == "" || !slices.ContainsFunc(all, func(m message) bool { return strings.Contains(m.text, plain) }) {
			wrong = append(wrong, fmt.Errorf("%s: %q: %w", messagesDoc, q, errNoMessage))
		}
	}
	return errors.Join(wrong...)
}
