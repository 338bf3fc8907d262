// Command web runs in the test's pods. It serves HTTP, and its other commands inspect the
// network from inside a pod:
//
//	web             serve on :8080: / is the pod's name, /ready is ready after a second
//	web get URL     print the body
//	web lookup NAME print the addresses
//	web env NAME    print a variable
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 1:
		err = serve()
	case len(os.Args) == 3 && os.Args[1] == "get":
		err = show(get(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "lookup":
		err = show(lookup(os.Args[2]))
	case len(os.Args) == 3 && os.Args[1] == "env":
		fmt.Println(os.Getenv(os.Args[2]))
	default:
		err = errors.New("unknown arguments")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	started := time.Now()
	http.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		log.Printf("asked by %s", r.RemoteAddr)
		fmt.Fprint(w, name)
	})
	http.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(started) < time.Second {
			http.Error(w, "warming up", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Addr: ":8080"}
	go func() {
		<-ctx.Done()
		server.Shutdown(context.Background())
	}()
	log.Printf("%s serves", name)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	// A file in a volume shows the host that the program was asked to end.
	if dir := os.Getenv("FAREWELL"); dir != "" {
		return os.WriteFile(dir+"/"+name, []byte("bye"), 0o644)
	}
	return nil
}

func get(url string) (string, error) {
	client := &http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func lookup(name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, name)
	return strings.Join(addrs, "\n"), err
}

func show(s string, err error) error {
	if err == nil {
		fmt.Println(s)
	}
	return err
}
