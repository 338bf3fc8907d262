package kube

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/pintle-go/pintle/kube/internal/wire"
)

// pageTries is how often in a row a page of a list is asked for.
const pageTries = 5

const (
	// fewPages is how many pages a list may have whatever they hold. Servers may send
	// pages with few objects or none, as for a selector that matches few objects.
	fewPages = 10_000
	// objectsOfAPage is how many objects allow for one more page.
	objectsOfAPage = 10
	// mostPages is the largest number of pages of a list.
	mostPages = 200_000
)

var (
	// errRepeats: the continue token of the next page is one that led to this page or to an
	// earlier one, or the page begins with the object that an earlier page began with.
	errRepeats = fmt.Errorf("%w: the page continues with itself", wire.ErrAnswer)
	errEndless = fmt.Errorf("%w: the list does not end", wire.ErrAnswer)
)

// pages notices a list that does not end: its pages come again, or there are too many of them
// for the objects that they hold. The zero value is the state before the first page.
type pages struct {
	tokens, firsts circle
	read, objects  int
}

// goOn notes a page that is not the last: the token of the page after it, the key of its
// first object, if it is known, and how many objects it has. It returns an error if the list
// does not end.
func (p *pages) goOn(token string, first Key, objects int) error {
	p.read++
	p.objects += objects
	switch {
	case p.tokens.closes(token), first != (Key{}) && p.firsts.closes(first.String()):
		return errRepeats
	case p.read >= min(fewPages+p.objects/objectsOfAPage, mostPages):
		return fmt.Errorf("%w: %d pages with %d objects", errEndless, p.read, p.objects)
	}
	return nil
}

// circle notices continue tokens that lead in a circle, by Brent's algorithm: it compares
// each token with a single stored one, and stores a later token after twice as many pages
// each time.
type circle struct {
	token       string
	pages, most int
}

// closes reports that a token has led to an earlier page before. It may notice this only
// after some rounds.
func (c *circle) closes(token string) bool {
	if c.most > 0 && token == c.token {
		return true
	}
	if c.pages++; c.pages > c.most {
		c.token, c.pages, c.most = token, 0, 2*c.most+1
	}
	return false
}

// passes reports whether a failure of a request for a page may pass: the server refuses the
// request for now, or its answer was lost.
func passes(err error) bool {
	if code := codeOf(err); code != 0 {
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	for _, passing := range []error{ErrUnreachable, errLost, errBroken, errSilent, io.ErrUnexpectedEOF} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}
