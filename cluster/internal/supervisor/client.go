package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pintle-go/pintle/cluster/internal/state"
)

// A Client sends requests to the supervisor of a cluster.
type Client struct{ http *http.Client }

// NewClient returns a client of the cluster in dir.
func NewClient(dir state.Dir) *Client {
	return &Client{http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			socket, err := dir.Socket()
			if err != nil {
				return nil, err
			}
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// answerLimit is the time after which a supervisor that does not answer counts as stuck.
const answerLimit = 10 * time.Second

// Status returns the cluster's status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var status Status
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	data, err := c.send(ctx, http.MethodGet, "/status", nil)
	if err == nil {
		err = json.Unmarshal(data, &status)
	}
	if err != nil {
		return Status{}, fmt.Errorf("ask the cluster's supervisor for its status: %w", err)
	}
	return status, nil
}

// Stop tells the cluster to stop. It does not wait: the supervisor's lock is free when
// the cluster has stopped.
func (c *Client) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if _, err := c.send(ctx, http.MethodPost, "/stop", nil); err != nil {
		return fmt.Errorf("tell the cluster to stop: %w", err)
	}
	return nil
}

// Adopt makes another process the owner of the cluster. It returns [ErrOwned] if the owner
// runs, and [ErrEnding] if the cluster ends, for example because it is damaged.
func (c *Client) Adopt(ctx context.Context, by Ownership) error {
	ctx, cancel := context.WithTimeout(ctx, emptyLimit+answerLimit)
	defer cancel()
	_, err := c.send(ctx, http.MethodPost, "/owner", by)
	var answer *answerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && answer.code == http.StatusConflict:
		return ErrOwned
	case errors.As(err, &answer) && answer.code == http.StatusGone:
		return ErrEnding
	}
	return fmt.Errorf("adopt the cluster: %w", err)
}

// Act performs one of [Actions] on a component, and returns when it is complete.
func (c *Client) Act(ctx context.Context, component, action string) error {
	if _, err := c.send(ctx, http.MethodPost, "/components/"+component+"/"+action, nil); err != nil {
		return fmt.Errorf("%s %s: %w", action, component, err)
	}
	return nil
}

// Compact compacts etcd to its newest revision.
func (c *Client) Compact(ctx context.Context) error {
	_, err := c.send(ctx, http.MethodPost, "/compact", nil)
	return err
}

// An answerError is an answer that is not a success.
type answerError struct {
	code int
	text string
}

func (e *answerError) Error() string { return e.text }

// send sends a request. A body that is not nil is sent as JSON.
func (c *Client) send(ctx context.Context, method, path string, body any) ([]byte, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://cluster"+path, reader)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, &answerError{response.StatusCode, strings.TrimSpace(string(data))}
	}
	return data, nil
}
