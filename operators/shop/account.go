package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

// Account is an account at the payment service, as the service has it in JSON.
type Account struct {
	Name  string `json:"name"`
	Limit int64  `json:"limit"`
	// Key is shown when the account is created, and never again.
	Key string `json:"key,omitempty"`
}

// accounts describes how accounts are handled. All shops share the limits of the service.
func accounts(service string, secrets kube.Resource[corev1.Secret]) *plan.Things[Account] {
	call := func(ctx context.Context, method, name string, body *Account) (*Account, error) {
		return call(ctx, method, service+"/accounts/"+url.PathEscape(name), body)
	}
	return &plan.Things[Account]{
		Kind:   "Account",
		Target: &plan.Target{Name: "the payment service", Rate: 20, Timeout: 5 * time.Second},
		Name:   func(a *Account) string { return a.Name },
		Observe: func(ctx context.Context, r plan.Ref) (*Account, error) {
			return call(ctx, http.MethodGet, r.Name, nil)
		},
		Create: func(ctx context.Context, r plan.Ref, want *Account) (*Account, error) {
			return call(ctx, http.MethodPost, r.Name, want)
		},
		Differs: func(is, want *Account) bool { return is.Limit != want.Limit },
		Update: func(ctx context.Context, r plan.Ref, _, want *Account) (*Account, error) {
			return call(ctx, http.MethodPut, r.Name, want)
		},
		Delete: func(ctx context.Context, r plan.Ref) error {
			_, err := call(ctx, http.MethodDelete, r.Name, nil)
			return err
		},
		Settle: 10 * time.Second, // a request that the service has not answered by then has no effect
		Poll:   10 * time.Minute, // so long a change by others may stay unnoticed
		Outcome: func(is *Account) map[string]string {
			if is.Key == "" {
				return nil
			}
			return map[string]string{"key": is.Key}
		},
		Keep: plan.InSecret(secrets),
	}
}

// call sends a request to the service. It returns nil if there is no such account.
func call(ctx context.Context, method, address string, body *Account) (*Account, error) {
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(sent))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound:
		return nil, nil
	case resp.StatusCode == http.StatusRequestTimeout: // a proxy may say so of a request that took effect
		return nil, fmt.Errorf("the answer is %s: %s", resp.Status, text)
	case resp.StatusCode >= 400 && resp.StatusCode < 500:
		return nil, fmt.Errorf("%w: %s: %s", plan.ErrRefused, resp.Status, text)
	case resp.StatusCode >= 300:
		return nil, fmt.Errorf("the answer is %s: %s", resp.Status, text)
	case resp.StatusCode == http.StatusNoContent:
		return nil, nil
	}
	is := new(Account)
	return is, json.Unmarshal(text, is)
}
