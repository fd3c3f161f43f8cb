package pluginhost

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// bounded has a call that was not answered in its time end as such. The plugin's half of the connection knows the same
// bound, and takes the call back at the end of it: whether that or our own end is seen first is chance, and a call that
// is taken back otherwise says that the plugin goes.
func bounded(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	err := next(ctx, method, req, reply, conn, opts...)
	if end, bound := ctx.Deadline(); bound && status.Code(err) == codes.Canceled && !time.Now().Before(end) {
		return status.Error(codes.DeadlineExceeded, context.DeadlineExceeded.Error())
	}
	return err
}
