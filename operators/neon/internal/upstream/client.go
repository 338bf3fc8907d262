// Package upstream calls Neon's programs over HTTP: the storage controller ([Controller]),
// safekeepers ([Safekeeper]), pageservers ([Pageserver]) and computes ([Compute]).
//
// Each method is one request. It signs its token with the scope that the program demands,
// ends at a deadline, and returns an [*Error] when the program answers with anything but
// success. Nothing is retried here: [Retryable] tells whether a caller may.
//
// Caveats, all seen with the real programs:
//
//   - A request that timed out may still have its effect.
//   - The storage controller answers 409 for much that is no conflict: see [Error.Folded].
//   - DELETE of a timeline that has a child destroys its WAL and then fails.
//   - A branch from an LSN in the future neither fails nor returns.
package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// Config says how to reach a program.
type Config struct {
	// URL is the program's address, such as "http://storage-controller:1234".
	URL string
	// HTTP makes the requests. It holds the CA of programs that serve TLS. The default is
	// [http.DefaultClient].
	HTTP *http.Client
	// Sign returns the token with these claims. Without it requests carry no token.
	Sign func(token.Claims) string
	// Timeout ends each request. The default is 30 s, because the storage controller itself
	// waits 25 s for a deletion.
	Timeout time.Duration
}

const defaultTimeout = 30 * time.Second

// The bodies that a program may send. The list of a tenant's timelines takes about 1 KiB for
// each.
const (
	largestBody    = 16 << 20
	largestMessage = 2 << 10
)

// caller makes the requests to one program.
type caller struct {
	Config
}

// request is one call.
type request struct {
	method string
	// path is below the program's URL. It holds no secret, since errors name it.
	path string
	// claims are those of the token. Without them the request carries no token.
	claims token.Claims
	body   any
}

func scope(s token.Scope) token.Claims { return token.Claims{Scope: s} }

// call sends a request and reads the answer into the value that into points to, unless
// into is nil. Fields of the answer that the value does not have are ignored.
func (c caller) call(ctx context.Context, r request, into any) error {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	response, err := c.send(ctx, r)
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, largestBody+1))
	if err != nil {
		return fmt.Errorf("%s %s: read answer: %w", r.method, r.path, err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return &Error{Method: r.method, Path: r.path, Status: response.StatusCode, Message: message(body)}
	}
	if into == nil {
		return nil
	}
	if len(body) > largestBody {
		return fmt.Errorf("%s %s: read answer: longer than %d bytes", r.method, r.path, largestBody)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s %s: decode answer: %w", r.method, r.path, err)
	}
	return nil
}

func (c caller) send(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, strings.TrimSuffix(c.URL, "/")+r.path, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Sign != nil && !isZero(r.claims) {
		req.Header.Set("Authorization", "Bearer "+c.Sign(r.claims))
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(req)
	if err != nil {
		return nil, &TransportError{cause: explained(errors.Unwrap(err))}
	}
	return response, nil
}

// explained says more about a certificate that is not trusted.
func explained(err error) error {
	var wrong *tls.CertificateVerificationError
	if errors.As(err, &wrong) {
		return fmt.Errorf("its certificate is not that of a program of this cluster: %w", wrong.Err)
	}
	return err
}

func isZero(c token.Claims) bool { return c.Scope == "" && c.ComputeID == "" }

// message returns the text of an error's body: {"msg"} from storage, {"error"} from
// computes, or plain text.
func message(body []byte) string {
	var known struct{ Msg, Error string }
	text := string(body)
	if err := json.Unmarshal(body, &known); err == nil && known.Msg+known.Error != "" {
		text = known.Msg + known.Error
	}
	// Far more than is kept, so that no secret is cut in two at the end of the message.
	text = withoutSecrets(strings.TrimSpace(text[:min(len(text), 8*largestMessage)]))
	if len(text) > largestMessage {
		text = strings.ToValidUTF8(text[:largestMessage], "") + "…"
	}
	return text
}
