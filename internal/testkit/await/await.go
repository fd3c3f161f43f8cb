// Package await owns how a test waits for what comes by itself: for as long as a busy machine may need.
package await

import (
	"cmp"
	"os"
	"testing"
	"time"
)

// Variable names the environment variable that shortens the longest wait (a duration): who breaks the program on
// purpose knows that most of what is waited for then never comes.
const Variable = "BERTH_TEST_PATIENCE"

// Eventually waits until a condition holds, or fails the test.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit, err := time.ParseDuration(cmp.Or(os.Getenv(Variable), "1m"))
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came true: %s", what)
		}
	}
}
