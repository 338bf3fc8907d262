package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestLinks(t *testing.T) {
	root := write(t, map[string]string{
		"README.md":      "# Front\n",
		"docs/guide.md":  "# Guide\n\n## Use `kube.For`, twice\n\n## Again\n\n## Again\n",
		"kube/reader.go": "package kube\n",
	})
	tests := map[string]struct {
		to   string
		want error
	}{
		"file":                   {"../kube/reader.go", nil},
		"directory":              {"../kube", nil},
		"document":               {"guide.md", nil},
		"missing":                {"gone.md", errNoFile},
		"outside":                {"../../secret", errNoFile},
		"heading":                {"guide.md#use-kubefor-twice", nil},
		"second heading":         {"#again-1", nil},
		"missing heading":        {"../README.md#guide", errNoAnchor},
		"missing own heading":    {"#again-2", errNoAnchor},
		"line of a source file":  {"../kube/reader.go#L1", nil},
		"other host":             {"https://example.com/gone", nil},
		"our file":               {repository + "blob/main/kube/reader.go", nil},
		"our missing file":       {repository + "blob/main/kube/gone.go", errNoFile},
		"our missing heading":    {repository + "blob/main/docs/guide.md#gone", errNoAnchor},
		"something else of ours": {repository + "issues", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			docs := documents{dir: root, read: map[string]document{}}
			if err := docs.check("docs/guide.md", test.to); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestParseDocument(t *testing.T) {
	doc := parseDocument(
		[]byte("# A\n\n[b](c.md), ![d](e.svg), `[f](g.md)`\n\n```sh\n[h](i.md)\n```\n\n| x |\n| - |\n| [j](k.md) |\n"),
	)
	if want := []string{"c.md", "e.svg", "k.md"}; !slices.Equal(doc.links, want) {
		t.Errorf("got %q, want %q", doc.links, want)
	}
}

func TestSite(t *testing.T) {
	page := func(body string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("<!doctype html>" + body)} }
	tests := map[string]struct {
		body string
		want string // in the error
	}{
		"good":             {`<a href="b.html#x">b</a><a href="https://example.com">e</a><img src="../pic.svg">`, ""},
		"missing page":     {`<a href="c.html">`, "c.html"},
		"missing anchor":   {`<a href="b.html#y">`, "b.html#y"},
		"missing picture":  {`<img src="gone.svg">`, "gone.svg"},
		"foreign script":   {`<script src="https://example.com/x.js"></script>`, "another host"},
		"foreign picture":  {`<img src="//example.com/x.png">`, "another host"},
		"foreign style":    {`<link rel="stylesheet" href="https://example.com/x.css">`, "another host"},
		"foreign font":     {`<style>@import "https://example.com/x.css";</style>`, "another host"},
		"absolute path":    {`<a href="/docs/b.html">`, "relative"},
		"data is no host":  {`<link rel="icon" href="data:,">`, ""},
		"own anchor":       {`<h2 id="z"></h2><a href="#z">`, ""},
		"no own anchor":    {`<a href="#zz">`, "#zz"},
		"link to a folder": {`<a href="../docs">`, "docs"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkSite(fstest.MapFS{
				"docs/a.html": page(test.body), "docs/b.html": page(`<h2 id=x></h2>`), "pic.svg": page(""),
			})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
