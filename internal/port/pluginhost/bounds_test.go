package pluginhost

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Given a call that is taken back, then it has run out of time if its time is over, and otherwise not.
func TestACallThatIsTakenBackAtItsEndHasRunOutOfTime(t *testing.T) {
	takenBack := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		return status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL")
	}
	for name, c := range map[string]struct {
		left time.Duration // 0: without bound
		want codes.Code
	}{
		"it is over":    {-time.Nanosecond, codes.DeadlineExceeded},
		"it is not":     {time.Hour, codes.Canceled},
		"there is none": {0, codes.Canceled},
	} {
		ctx := t.Context()
		if c.left != 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.left)
			defer cancel()
		}
		if got := status.Code(bounded(ctx, "/m", nil, nil, nil, takenBack)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
