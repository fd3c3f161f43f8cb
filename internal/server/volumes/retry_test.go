package volumes

import (
	"testing"

	"berth/internal/model/volume"
)

func TestEveryClassOfRetryIsPermanentOrNot(t *testing.T) {
	for _, r := range volume.Retries() {
		creating := r == volume.RetryNever || r == volume.RetryOtherPlace
		if got := permanent(r, true); got != creating {
			t.Errorf("%s of a creation is permanent: %t", r, got)
		}
		if got := permanent(r, false); got != (r == volume.RetryNever) {
			t.Errorf("%s of an expansion is permanent: %t", r, got)
		}
	}
}
