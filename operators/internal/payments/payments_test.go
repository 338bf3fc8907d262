package payments

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Run(m)) }

// The service makes an account for each POST, shows keys once, and forgets what is deleted.
func TestService(t *testing.T) {
	var s Service
	url, stop, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer func() {
		if err := stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	call := func(method, body string, want int) (a Account) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url+"/accounts/a", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s: %d %s, %v", method, resp.StatusCode, text, err)
		}
		_ = json.Unmarshal(text, &a) // an error has no account
		return a
	}
	call(http.MethodGet, "", http.StatusNotFound)
	call(http.MethodPut, `{"limit":1}`, http.StatusNotFound)
	call(http.MethodPost, `{"limit":0}`, http.StatusBadRequest)
	first, second := call(http.MethodPost, `{"limit":1}`, http.StatusCreated), call(http.MethodPost, `{"limit":1}`, http.StatusCreated)
	if first.Key == "" || first.Key == second.Key || len(s.Accounts()["a"]) != 2 || s.Created("a") != 2 || s.Most() != 2 {
		t.Errorf("accounts are %+v", s.Accounts())
	}
	if a := call(http.MethodPut, `{"limit":7}`, http.StatusOK); a.Limit != 7 || a.Key != "" {
		t.Errorf("the account is %+v", a)
	}
	if a := call(http.MethodGet, "", http.StatusOK); a.Limit != 7 || a.Key != "" {
		t.Errorf("the account is %+v", a)
	}
	call(http.MethodDelete, "", http.StatusNoContent)
	call(http.MethodDelete, "", http.StatusNoContent)
	call(http.MethodGet, "", http.StatusNotFound)
}
