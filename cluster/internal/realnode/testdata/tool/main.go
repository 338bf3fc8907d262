// Command tool is executed by a test in a pod:
//
//	tool           serve on :8080 until it is asked to end, and log lines
//	tool cat       copy stdin to stdout, and print the number of bytes on stderr
//	tool exit N    exit with status N
//	tool size      print the terminal's size when it changes
//	tool hang      print a line and do nothing
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	switch {
	case len(os.Args) == 1:
		serve()
	case os.Args[1] == "cat":
		n, _ := io.Copy(os.Stdout, os.Stdin)
		fmt.Fprintln(os.Stderr, n, "bytes")
	case os.Args[1] == "exit":
		n, _ := strconv.Atoi(os.Args[2])
		os.Exit(n)
	case os.Args[1] == "size":
		size()
	case os.Args[1] == "hang":
		fmt.Println("hangs")
		time.Sleep(time.Hour)
	}
}

func serve() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "asked for ", r.URL.Path)
	}))
	go func() { // text from attached clients is read
		for {
			var word string
			if _, err := fmt.Scan(&word); err != nil {
				return
			}
			fmt.Println("heard", word)
		}
	}()
	for i := 0; ; i++ {
		fmt.Println("line", i)
		select {
		case <-ended:
			fmt.Println("farewell")
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func size() {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	for {
		var s struct{ rows, columns, x, y uint16 }
		syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&s)))
		if fmt.Printf("%dx%d\n", s.columns, s.rows); s.columns == 101 {
			return
		}
		<-changed
	}
}
