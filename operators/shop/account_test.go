package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pintle-go/pintle/plan"
)

// An answer that leaves open whether an account was opened is not taken for a refusal.
func TestAnswersOfTheService(t *testing.T) {
	for status, refused := range map[int]bool{
		http.StatusBadRequest: true, http.StatusConflict: true, http.StatusUnprocessableEntity: true,
		http.StatusRequestTimeout: false, http.StatusBadGateway: false, http.StatusGatewayTimeout: false,
	} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		_, err := call(t.Context(), http.MethodPost, service.URL, &Account{Name: "a"})
		if err == nil || errors.Is(err, plan.ErrRefused) != refused {
			t.Errorf("%d: got %v, want refused to be %v", status, err, refused)
		}
		http.DefaultClient.CloseIdleConnections()
		service.Close()
	}
}
