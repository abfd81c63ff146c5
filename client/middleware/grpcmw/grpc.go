// Package grpcmw puts a middleware.Guard in front of the methods of a gRPC server. It knows
// where gRPC keeps addresses and metadata and how it tells a refusal, and nothing else.
package grpcmw

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client/middleware"
)

// Unary guards unary methods. Costs are found under the full method, such as
// "/exports.v1.Exports/Start". A refusal is ResourceExhausted with a RetryInfo, and what can never
// fit InvalidArgument; the headers ratelimit, ratelimit-policy and retry-after are sent beside.
// Behind a guard that reserves, success commits the hold, and an error or a panic releases it.
func Unary(g *middleware.Guard) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		pass, err := enter(ctx, g, info.FullMethod)
		if err != nil {
			return nil, err
		}
		inner, cancel := pass.Within(ctx)
		defer cancel()
		done := false
		defer func() { pass.Leave(ctx, done && err == nil) }()
		resp, err = handler(inner, req)
		done = true
		return resp, err
	}
}

// Stream guards streams, each from its opening to its end, as Unary does.
func Stream(g *middleware.Guard) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		pass, err := enter(stream.Context(), g, info.FullMethod)
		if err != nil {
			return err
		}
		ctx, cancel := pass.Within(stream.Context())
		defer cancel()
		done := false
		defer func() { pass.Leave(ctx, done && err == nil) }()
		err = handler(srv, &inside{stream, ctx})
		done = true
		return err
	}
}

// inside is a stream with the context of its hold.
type inside struct {
	grpc.ServerStream
	ctx context.Context
}

// Context is the hold's within the stream's.
func (s *inside) Context() context.Context { return s.ctx }

func enter(ctx context.Context, g *middleware.Guard, method string) (*middleware.Pass, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	caller := middleware.Caller{Authorization: md.Get("authorization"), Forwarded: md.Get("x-forwarded-for")}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		caller.Peer = p.Addr.String()
	}
	pass, err := g.Enter(ctx, g.Subject(ctx, caller), method)
	if err != nil {
		return nil, refuse(ctx, g.Explain(err))
	}
	tell(ctx, pass.RateLimit, pass.RateLimitPolicy, 0)
	return pass, nil
}

// tell sets headers of the answer. One that has left already goes without.
func tell(ctx context.Context, rateLimit, policy string, retry time.Duration) {
	md := metadata.MD{}
	if rateLimit != "" {
		md.Set("ratelimit", rateLimit)
	}
	if policy != "" {
		md.Set("ratelimit-policy", policy)
	}
	if retry > 0 {
		md.Set("retry-after", strconv.FormatInt(int64(retry/time.Second), 10))
	}
	_ = grpc.SetHeader(ctx, md)
}

// refuse is an answer as a gRPC status.
func refuse(ctx context.Context, a middleware.Answer) error {
	tell(ctx, a.RateLimit, a.RateLimitPolicy, a.RetryAfter)
	s := status.New(codeOf(a.Code), a.Detail)
	if a.RetryAfter > 0 {
		if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(a.RetryAfter)}); err == nil {
			s = detailed
		}
	}
	return s.Err()
}

func codeOf(c api.Code) codes.Code {
	switch c {
	case api.NeverFits:
		return codes.InvalidArgument
	case api.StoreUnavailable:
		return codes.Unavailable
	case api.Internal:
		return codes.Internal
	}
	return codes.ResourceExhausted
}
