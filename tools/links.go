package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// repository is the address of the repository's files. main is the branch of links.
const repository = "https://github.com/pintle-go/pintle/"

var (
	errNoFile   = errors.New("no such file in the repository")
	errNoAnchor = errors.New("no such heading in the document")
)

// checkLinks checks the links and images of the Markdown files. A link to a file of the
// repository, relative or at its address, needs that file. A link to a heading needs that
// heading. Other hosts are not asked. With -site DIR it also checks the web site in DIR:
// see checkSite.
func checkLinks(ctx context.Context, repo *Repo, args []string) error {
	flags := flag.NewFlagSet("links", flag.ContinueOnError)
	site := flags.String("site", "", "also check the built web site in this `directory`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	names, err := repo.documents(ctx)
	if err != nil {
		return err
	}
	docs := documents{dir: repo.Dir, read: map[string]document{}}
	var found []error
	links := 0
	for _, name := range names {
		doc, err := docs.get(name)
		if err != nil {
			return err
		}
		links += len(doc.links)
		for _, to := range doc.links {
			if err := docs.check(name, to); err != nil {
				found = append(found, fmt.Errorf("%s links to %s: %w", name, to, err))
			}
		}
	}
	fmt.Printf("links: %d in %d documents\n", links, len(names))
	if *site != "" {
		found = append(found, checkSite(os.DirFS(*site)))
	}
	return errors.Join(found...)
}

// documents returns the Markdown files of the repository.
func (r *Repo) documents(ctx context.Context) ([]string, error) {
	out, err := r.output(ctx, r.Dir, "git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md")
	if err != nil {
		return nil, fmt.Errorf("list documents: %w", err)
	}
	return strings.Fields(out), nil
}

// documents reads each document once.
type documents struct {
	dir  string
	read map[string]document
}

// document has the parts of a document that links need.
type document struct {
	links   []string
	anchors map[string]bool
}

func (d documents) get(name string) (document, error) {
	if doc, ok := d.read[name]; ok {
		return doc, nil
	}
	source, err := os.ReadFile(filepath.Join(d.dir, filepath.FromSlash(name)))
	if err != nil {
		return document{}, fmt.Errorf("read document: %w", err)
	}
	d.read[name] = parseDocument(source)
	return d.read[name], nil
}

// check checks one link of the document from.
func (d documents) check(from, to string) error {
	u, err := url.Parse(to)
	if err != nil {
		return fmt.Errorf("parse link: %w", err)
	}
	name := path.Join(path.Dir(from), u.Path)
	switch rest, ours := strings.CutPrefix(to, repository); {
	case ours:
		kind, file, _ := strings.Cut(rest, "/main/")
		if kind != "blob" && kind != "tree" {
			return nil // such as an issue
		}
		name, _, _ = strings.Cut(file, "#")
	case u.IsAbs():
		return nil
	case u.Path == "":
		name = from
	}
	info, err := os.Stat(filepath.Join(d.dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return errNoFile
	}
	if err != nil {
		return fmt.Errorf("find file: %w", err)
	}
	if u.Fragment == "" || info.IsDir() || path.Ext(name) != ".md" {
		return nil
	}
	doc, err := d.get(name)
	if err == nil && !doc.anchors[u.Fragment] {
		err = errNoAnchor
	}
	return err
}

// parseDocument finds the links and the anchors of a document.
func parseDocument(source []byte) document {
	doc := document{anchors: map[string]bool{}}
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			doc.links = append(doc.links, string(n.Destination))
		case *ast.Image:
			doc.links = append(doc.links, string(n.Destination))
		case *ast.Heading:
			doc.addAnchor(slug(plain(n, source)))
		}
		return ast.WalkContinue, nil
	})
	return doc
}

// addAnchor adds the anchor of a heading. A second heading of the same text gets a number,
// as on GitHub.
func (d document) addAnchor(anchor string) {
	unique := anchor
	for i := 1; d.anchors[unique]; i++ {
		unique = fmt.Sprintf("%s-%d", anchor, i)
	}
	d.anchors[unique] = true
}

var notInSlug = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`)

// slug returns the anchor that GitHub gives a heading.
func slug(heading string) string {
	return strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// plain returns the text of a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(source))
		} else {
			b.WriteString(plain(c, source))
		}
	}
	return b.String()
}
