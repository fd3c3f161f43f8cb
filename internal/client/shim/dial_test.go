package shim

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// Given a shim that has not answered in time, then its process is named, and how to have one go on that was stopped; a
// shim that is gone is no such one.
func TestAShimThatDoesNotAnswerIsNamed(t *testing.T) {
	c := &conn{pid: 4711}
	err := c.unanswered(os.ErrDeadlineExceeded)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the cause is lost: %v", err)
	}
	for _, word := range []string{"process 4711", "20s", "kill -CONT 4711"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("it does not say %q: %v", word, err)
		}
	}
	if err := c.unanswered(io.EOF); !errors.Is(err, io.EOF) || strings.Contains(err.Error(), "kill") {
		t.Errorf("a shim that is gone: %v", err)
	}
}
