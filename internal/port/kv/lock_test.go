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

// Given a data directory, then whoever only reads it is kept out while an agent has it, and keeps agents out until he
// has read; he changes nothing, and of one that was never used he makes nothing.
func TestWhoReadsADataDirectoryHasItAlone(t *testing.T) {
	dir := t.TempDir()
	release, err := kv.HoldDir(dir)
	if err != nil {
		t.Fatalf("one that was never used: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in it: %v, %v", left, err)
	}
	l, err := kv.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = kv.HoldDir(dir)
	if !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("while an agent has it: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	release, err = kv.HoldDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.LockDir(dir); !fault.Has(err, fault.Busy) {
		t.Errorf("an agent, while it is read: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if l, err = kv.LockDir(dir); err != nil {
		t.Fatalf("an agent, after it was read: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Error(err)
	}
}
