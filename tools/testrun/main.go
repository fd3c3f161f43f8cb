// Command testrun runs `go test` and tells a person how far it is: packages as they end, what still runs, the slowest
// at the end, and last of all what the tests that failed said. Nothing imports it; its arguments are those of go test.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	// An interrupt reaches go test as well, which ends by it: what the tests said until then is still shown.
	_, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		stop()
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	total, err := packages(args)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	r := newReport(out, total, time.Now)
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := r.read(events)
	err = cmd.Wait()
	r.end()
	if err == nil && readErr == nil && r.failures() > 0 {
		err = errors.New("a package failed")
	}
	return errors.Join(err, readErr)
}

// packages counts what will be tested: the arguments that are no flags and not the value of one.
func packages(args []string) (int, error) {
	names := []string{"list"}
	for i, a := range args {
		if !strings.HasPrefix(a, "-") && (i == 0 || !takesValue(args[i-1])) {
			names = append(names, a)
		}
	}
	list := exec.Command("go", names...)
	list.Stderr = os.Stderr
	text, err := list.Output()
	if err != nil {
		return 0, fmt.Errorf("go list: %w", err)
	}
	return bytes.Count(text, []byte("\n")), nil
}

// takesValue tells flags of go test whose value is the next argument.
func takesValue(flag string) bool {
	switch strings.TrimLeft(flag, "-") {
	case "timeout", "run", "skip", "count", "p", "parallel", "tags", "cpu", "bench":
		return true
	}
	return false
}
