package lifeline

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/pintle-go/pintle/internal/leak"
)

// The test binary also acts as the process at the end of the lifeline.
const roleVariable = "LIFELINE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(leak.Run(m))
	default:
		if role == "stubborn" {
			signal.Ignore(syscall.SIGTERM)
		}
		Watch()
		fmt.Println("ready", os.Getenv(Variable))
		time.Sleep(time.Hour) // until it is killed
	}
}

func TestCut(t *testing.T) {
	for role, want := range map[string]string{"obedient": "signal: terminated", "stubborn": "exit status 1"} {
		t.Run(role, func(t *testing.T) {
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer write.Close()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), roleVariable+"="+role, Variable+"=3")
			cmd.ExtraFiles = []*os.File{read}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			read.Close()
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready \n" {
				t.Fatalf("child: %q %v", line, err)
			}
			began := time.Now()
			write.Close()
			if err := cmd.Wait(); err == nil || err.Error() != want {
				t.Errorf("child ended with %v, want %s", err, want)
			}
			if took := time.Since(began); role == "stubborn" && took < Grace {
				t.Errorf("it had %s to end by itself, want %s", took, Grace)
			}
		})
	}
}

// A process that was started without a lifeline keeps running.
func TestNone(t *testing.T) {
	for _, value := range []string{"", "x"} {
		t.Setenv(Variable, value)
		Watch()
	}
}
