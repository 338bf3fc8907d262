package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"

	"golang.org/x/net/html"
)

var (
	errOtherHost   = errors.New("the page asks another host")
	errNotRelative = errors.New("the link is not relative, so the site works only at one address")
	errNoPage      = errors.New("the site has no such page, file or anchor")
)

// checkSite checks a built web site. Every link inside the site has its page and its
// anchor. No page and no style sheet loads anything from another host.
func checkSite(site fs.FS) error {
	pages := map[string]page{}
	var found []error
	err := fs.WalkDir(site, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(site, name)
		if err != nil {
			return err
		}
		switch ext := path.Ext(name); {
		case ext == ".html":
			pages[name], err = readPage(data)
		case (ext == ".css" || ext == ".svg") && loads.Match(data):
			found = append(found, fmt.Errorf("%s: %w", name, errOtherHost))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read site: %w", err)
	}
	if len(pages) == 0 {
		return errors.New("the site has no page")
	}
	links := 0
	for name, p := range pages {
		links += len(p.links)
		if p.loads {
			found = append(found, fmt.Errorf("%s: a style: %w", name, errOtherHost))
		}
		for _, l := range p.links {
			if err := l.check(site, pages, name); err != nil {
				found = append(found, fmt.Errorf("%s: %s: %w", name, l.to, err))
			}
		}
	}
	fmt.Printf("links: %d in %d pages of the site\n", links, len(pages))
	return errors.Join(found...)
}

// loads matches the ways in which a style sheet or a picture loads a file of another host.
var loads = regexp.MustCompile(`(?i)(@import|url\(|href=|src=)\s*["']?(https?:)?//`)

// page is a page of the site.
type page struct {
	links   []pageLink
	anchors map[string]bool
	loads   bool // its style asks another host
}

// pageLink is a link of a page. The browser loads it with the page, or when it is clicked.
type pageLink struct {
	to     string
	loaded bool
}

func readPage(data []byte) (page, error) {
	root, err := html.Parse(bytes.NewReader(data))
	if err != nil {
		return page{}, fmt.Errorf("parse page: %w", err)
	}
	p := page{anchors: map[string]bool{}}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "style" && n.FirstChild != nil {
			p.loads = p.loads || loads.MatchString(n.FirstChild.Data)
		}
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				p.anchors[a.Val] = true
			case "href":
				p.links = append(p.links, pageLink{a.Val, n.Data != "a"})
			case "src", "srcset", "poster", "data":
				p.links = append(p.links, pageLink{a.Val, true})
			case "style":
				p.loads = p.loads || loads.MatchString(a.Val)
			}
		}
	}
	return p, nil
}

// check checks a link of the page from.
func (l pageLink) check(site fs.FS, pages map[string]page, from string) error {
	u, err := url.Parse(l.to)
	switch {
	case err != nil:
		return fmt.Errorf("parse link: %w", err)
	case u.Scheme == "data":
		return nil
	case u.IsAbs() || u.Host != "":
		if l.loaded {
			return errOtherHost
		}
		return nil
	case path.IsAbs(u.Path):
		return errNotRelative
	}
	name := from
	if u.Path != "" {
		name = path.Join(path.Dir(from), u.Path)
	}
	if info, err := fs.Stat(site, name); err != nil || info.IsDir() {
		return errNoPage
	}
	if to, ok := pages[name]; ok && u.Fragment != "" && !to.anchors[u.Fragment] {
		return errNoPage
	}
	return nil
}
