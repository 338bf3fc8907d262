package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Client makes the calls among the stand-ins.
type Client struct {
	HTTP *http.Client
	// Token is sent with each request, unless it is empty.
	Token string
}

// Do sends a request and reads the answer into the value that into points to, unless into is
// nil. An answer other than success is an [*Error] with its status and message.
func (c Client) Do(ctx context.Context, method, url string, body, into any) error {
	var text io.Reader
	if body != nil {
		text = bytes.NewReader(MustJSON(body))
	}
	request, err := http.NewRequestWithContext(ctx, method, url, text)
	if err != nil {
		return err
	}
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode > 299 {
		var known struct{ Msg string }
		if err := json.Unmarshal(content, &known); err != nil {
			known.Msg = string(content)
		}
		return &Error{Status: response.StatusCode, Msg: known.Msg}
	}
	switch into := into.(type) {
	case nil:
		return nil
	case *[]byte:
		*into = content
		return nil
	default:
		return json.Unmarshal(content, into)
	}
}
