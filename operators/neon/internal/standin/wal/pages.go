package wal

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Pages serves the start of computes on the port of a pageserver where Neon's pageservers
// serve pages:
//
//	GET /basebackup?tenant=T&timeline=L[&lsn=N]
//	GET /wal?tenant=T&timeline=L&from=N[&to=N]
//
// A token for the tenant is the bearer. The first answers with the base of the timeline's
// oldest ancestor, once the pageserver has the WAL up to the LSN. The second answers with
// the WAL from an LSN on: that of the ancestors up to where they were left, and then the
// timeline's own, as far as the pageserver has it.
type Pages struct {
	// Verify returns an error unless a token gives access to a tenant. Without it all have.
	Verify func(token, tenant string) error
	// Base returns the base that NewBase has made for the oldest ancestor of a timeline.
	Base func(ctx context.Context, tenant, timeline string) ([]byte, error)
	// Pieces returns the timeline and its ancestors, the oldest first.
	Pieces func(ctx context.Context, tenant, timeline string) ([]Piece, error)
}

// Piece is the part of a timeline's WAL that one timeline holds.
type Piece struct {
	// End is where the next piece begins, or for the last one the end of the WAL.
	End LSN
	// Read returns WAL from an LSN on, at least one byte if there is any before End.
	Read func(ctx context.Context, from LSN) ([]byte, error)
}

// ErrNoTimeline is an error of Base and Pieces for a timeline that the pageserver has not. The
// answer is then 404.
var ErrNoTimeline = errors.New("no such timeline on this pageserver")

func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := p.serve(w, r)
	if err == nil {
		return
	}
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, errForbidden):
		status = http.StatusForbidden
	case errors.Is(err, errLSN):
		status = http.StatusBadRequest
	case errors.Is(err, ErrNoTimeline):
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"msg": err.Error()}) // the client may be gone
}

var (
	errForbidden = errors.New("forbidden")
	errLSN       = errors.New("no LSN")
)

func (p *Pages) serve(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	tenant, timeline := query.Get("tenant"), query.Get("timeline")
	if p.Verify != nil {
		if err := p.Verify(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), tenant); err != nil {
			return fmt.Errorf("%w: %w", errForbidden, err)
		}
	}
	numbers := map[string]LSN{}
	for _, name := range []string{"lsn", "from", "to"} {
		if text := query.Get(name); text != "" {
			lsn, err := ParseLSN(text)
			if err != nil {
				return fmt.Errorf("%w: %w", errLSN, err)
			}
			numbers[name] = lsn
		}
	}
	switch r.URL.Path {
	case "/basebackup":
		return p.base(w, r, tenant, timeline, numbers["lsn"])
	case "/wal":
		return p.wal(w, r, tenant, timeline, numbers["from"], numbers["to"])
	}
	return fmt.Errorf("%w: path %s", ErrNoTimeline, r.URL.Path)
}

// base answers once the WAL reaches an LSN.
func (p *Pages) base(w http.ResponseWriter, r *http.Request, tenant, timeline string, lsn LSN) error {
	for {
		pieces, err := p.Pieces(r.Context(), tenant, timeline)
		if err != nil {
			return err
		}
		if len(pieces) > 0 && pieces[len(pieces)-1].End >= lsn {
			break
		}
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	base, err := p.Base(r.Context(), tenant, timeline)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-tar")
	_, _ = w.Write(base) // the client may be gone
	return nil
}

func (p *Pages) wal(w http.ResponseWriter, r *http.Request, tenant, timeline string, from, to LSN) error {
	pieces, err := p.Pieces(r.Context(), tenant, timeline)
	if err != nil {
		return err
	}
	began := false
	for _, piece := range pieces {
		end := piece.End
		if to > 0 {
			end = min(end, to)
		}
		for from < end {
			wal, err := piece.Read(r.Context(), from)
			if err == nil && len(wal) == 0 {
				err = fmt.Errorf("%w: %s", ErrMissing, from)
			}
			if err != nil && began {
				panic(http.ErrAbortHandler) // the client must not take a part for the whole
			}
			if err != nil {
				return err
			}
			wal = wal[:min(len(wal), int(end-from))]
			_, _ = w.Write(wal) // if the client is gone, Read's context ends
			from, began = from+LSN(len(wal)), true
		}
	}
	return nil
}

// PagesClient asks a pageserver for the start of a compute.
type PagesClient struct {
	// Address is host:port.
	Address  string
	Timeline Timeline
	// TLS checks the certificate of the pageserver. The base is fetched without it, as a real
	// compute does.
	TLS *tls.Config
}

// Base unpacks the base into a data directory that must not exist, once the pageserver has
// the WAL up to an LSN.
func (c PagesClient) Base(ctx context.Context, lsn LSN, dir string) error {
	body, err := c.get(ctx, http.DefaultClient, "basebackup", "&lsn="+lsn.String())
	if err != nil {
		return err
	}
	defer body.Close()
	return Unpack(body, dir)
}

// WAL writes the WAL from an LSN up to another into a directory, or as far as there is any if
// to is 0. It returns the end.
func (c PagesClient) WAL(ctx context.Context, from, to LSN, into Directory) (LSN, error) {
	query := "&from=" + from.String()
	if to > 0 {
		query += "&to=" + to.String()
	}
	client := http.DefaultClient
	if c.TLS != nil {
		transport := &http.Transport{DialContext: c.dialTLS}
		defer transport.CloseIdleConnections()
		client = &http.Client{Transport: transport}
	}
	body, err := c.get(ctx, client, "wal", query)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	chunk := make([]byte, largestChunk)
	for {
		n, err := body.Read(chunk)
		if n > 0 {
			if _, err := into.WriteAt(chunk[:n], int64(from)); err != nil {
				return 0, fmt.Errorf("write WAL: %w", err)
			}
			from += LSN(n)
		}
		if errors.Is(err, io.EOF) {
			return from, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read WAL of pageserver: %w", err)
		}
	}
}

func (c PagesClient) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	secure, err := askTLS(conn, address, c.TLS)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

func (c PagesClient) get(ctx context.Context, client *http.Client, what, query string) (io.ReadCloser, error) {
	url := fmt.Sprintf("http://%s/%s?tenant=%s&timeline=%s%s", c.Address, what, c.Timeline.Tenant, c.Timeline.Timeline, query)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask pageserver: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.Timeline.Token)
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask pageserver: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
	return nil, fmt.Errorf("ask pageserver for %s: %s: %s", what, response.Status, said)
}
