package kv_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/kv"
)

func TestADataDirectoryHasOneUser(t *testing.T) {
	dir := t.TempDir()
	l, err := kv.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = kv.LockDir(dir)
	if !fault.Has(err, fault.Busy) {
		t.Fatalf("the second user got %v", err)
	}
	if text := err.Error(); !strings.Contains(text, dir) || !strings.Contains(text, strconv.Itoa(os.Getpid())) {
		t.Errorf("directory and holder are not both named: %s", text)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	if l, err = kv.LockDir(dir); err != nil {
		t.Fatalf("after the first left: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}
