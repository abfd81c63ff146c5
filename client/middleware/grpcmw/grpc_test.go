package grpcmw_test

import (
	"context"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	pb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
	"github.com/holdfast-dev/holdfast/client/middleware"
	"github.com/holdfast-dev/holdfast/client/middleware/grpcmw"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a health service behind a guard, and whatever a test puts before it.
func service(t *testing.T, cfg middleware.Config, s *holdfasttest.Server, inner ...grpc.UnaryServerInterceptor) pb.HealthClient {
	t.Helper()
	cfg.Client = s.Client("front", "act-for")
	g, err := middleware.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(
		grpc.ChainUnaryInterceptor(append([]grpc.UnaryServerInterceptor{grpcmw.Unary(g)}, inner...)...),
		grpc.StreamInterceptor(grpcmw.Stream(g)))
	pb.RegisterHealthServer(srv, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return pb.NewHealthClient(conn)
}

func limit(id, action, kind string, amount int64, window string) holdfasttest.Option {
	return holdfasttest.Limits(api.LimitInput{ID: id, Name: id, SubjectKind: kind, Action: action, Amount: amount, Window: window})
}

// Issue 4: a refusal is ResourceExhausted, says when to come back, and who is counted is known
// by a verified token, else by address.
func TestUnary_Checks(t *testing.T) {
	t.Parallel()
	s := holdfasttest.New(t, limit("calls", "call", "ip", 5, "day"), limit("own", "call", "user", 1, "day"))
	c := service(t, middleware.Config{
		Action: "call", Costs: map[string]int64{"/grpc.health.v1.Health/Check": 3},
		Verify: func(context.Context, string) (string, error) { return "u_42", nil },
	}, s)
	if _, err := c.Check(t.Context(), &pb.HealthCheckRequest{}); err != nil {
		t.Fatalf("the first: %v", err)
	}
	var header metadata.MD
	_, err := c.Check(t.Context(), &pb.HealthCheckRequest{}, grpc.Header(&header))
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted || len(header.Get("retry-after")) != 1 || len(header.Get("ratelimit")) != 1 {
		t.Fatalf("the second: %v, headers %v", err, header)
	}
	if info, ok := st.Details()[0].(*errdetails.RetryInfo); !ok || info.GetRetryDelay().AsDuration() < time.Second {
		t.Errorf("its details: %v, want when to come back", st.Details())
	}
	signedIn := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer good")
	_, err = c.Check(signedIn, &pb.HealthCheckRequest{})
	if status.Code(err) != codes.InvalidArgument { // 3 never fits the 1 of users: it was counted for one
		t.Errorf("with a token: %v, want that it never fits", err)
	}
}

func TestReserves_SettlesByTheEnd(t *testing.T) {
	t.Parallel()
	s := holdfasttest.New(t, limit("exports", "export", "ip", 1, "concurrent"))
	fail := false
	ids := make(chan string, 1)
	c := service(t, middleware.Config{Action: "export", Reserve: true, TTL: 30 * time.Second}, s,
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			hold, there := middleware.HoldFrom(ctx)
			if !there {
				t.Error("there is no hold in the context")
				return nil, status.Error(codes.Internal, "no hold")
			}
			ids <- hold.ID()
			if fail {
				return nil, status.Error(codes.Aborted, "failed")
			}
			return next(ctx, req)
		})
	if _, err := c.Check(t.Context(), &pb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := s.Reservation(<-ids).State; got != api.StateCommitted {
		t.Errorf("after success it is %s", got)
	}
	fail = true
	if _, err := c.Check(t.Context(), &pb.HealthCheckRequest{}); status.Code(err) != codes.Aborted {
		t.Fatalf("got %v, want what the handler said", err)
	}
	if got := s.Reservation(<-ids).State; got != api.StateReleased {
		t.Errorf("after a failure it is %s", got)
	}

	// A stream holds its slot for as long as it is open.
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.Watch(ctx, &pb.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := len(s.Holds()); got != 1 {
		t.Errorf("%d holds while a stream is open, want 1", got)
	}
	if _, err := c.Check(t.Context(), &pb.HealthCheckRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("beside it: %v", err)
	}
	cancel()
	ticker, generous := time.NewTicker(5*time.Millisecond), time.After(time.Minute)
	defer ticker.Stop()
	for len(s.Holds()) > 0 {
		select {
		case <-ticker.C:
		case <-generous:
			t.Fatal("the slot of a stream that ended is still taken")
		}
	}
}
