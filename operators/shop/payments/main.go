// Command payments is a stand-in for the payment service at which shops have accounts. It
// keeps them in memory.
//
//	go run ./operators/shop/payments [-addr 127.0.0.1:8090]
package main

import (
	"flag"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/pintle-go/pintle/operators/internal/payments"
)

func main() {
	address := flag.String("addr", "127.0.0.1:8090", "`address` to listen on")
	flag.Parse()
	server := &http.Server{Addr: *address, Handler: new(payments.Service), ReadHeaderTimeout: 5 * time.Second}
	slog.Info("a stand-in for a payment service runs", "address", *address)
	if err := server.ListenAndServe(); err != nil {
		slog.Error("the stand-in failed", "error", err)
		os.Exit(1)
	}
}
