package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const jsonType = "application/json"

// server sends requests to a cluster's API server.
type server struct {
	base   *url.URL
	client *http.Client
}

func (c *Cluster) connect() (*server, error) {
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	config := c.Config()
	// A test that looks for leaked goroutines must not find ours. With HTTP/2, the
	// connection of a request that was just given up stays open.
	config.NextProtos = []string{"http/1.1"}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &server{base, client}, nil
}

func (s *server) close() { utilnet.CloseIdleConnectionsFor(s.client.Transport) }

// get decodes the answer in the form that accept names.
func (s *server) get(ctx context.Context, path, accept string, into any) error {
	answer, err := s.do(ctx, http.MethodGet, path, http.Header{"Accept": {accept}}, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

func (s *server) send(ctx context.Context, method, path, contentType string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	_, err = s.do(ctx, method, path, http.Header{"Content-Type": {contentType}}, data)
	return err
}

// A statusError is an answer that is not a success.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

func isNotFound(err error) bool {
	var answer *statusError
	return errors.As(err, &answer) && answer.code == http.StatusNotFound
}

func (s *server) do(ctx context.Context, method, path string, header http.Header, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header = header
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return nil, &statusError{response.StatusCode, fmt.Sprintf("%s: %.1000s", response.Status, answer)}
	}
	return answer, nil
}
