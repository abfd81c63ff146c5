// Command echo is a service whose routes are guarded by Holdfast: one is counted, the other holds
// a slot while it works.
//
//	export HOLDFAST_TOKEN="$(holdfast token)"     # a token that may act for others
//	go run ./examples/echo 127.0.0.1:8080
//
// Callers are known by their address here. A service that knows its users sets Verify, and then
// a token's subject is what counts.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/middleware"
	"github.com/holdfast-dev/holdfast/client/middleware/echomw"
)

// Bounds of the server.
const (
	headerWithin   = 5 * time.Second
	shutdownWithin = 10 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: echo HOST:PORT")
	}
	c, err := client.New(client.FromEnv())
	if err != nil {
		return err
	}
	defer c.Close()
	handler, err := service(c)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerWithin}
	context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.Background(), shutdownWithin)
		defer cancel()
		_ = server.Shutdown(ending) // what is under way after that is cut
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// service is the routes and what guards them. A request that may not pass is answered 429 with
// Retry-After and never reaches its handler.
func service(c *client.Client) (*echo.Echo, error) {
	counted, err := middleware.New(middleware.Config{
		Client: c, Action: "call",
		Costs: map[string]int64{"GET /things/:id": 1, "GET /search": 5},
	})
	if err != nil {
		return nil, err
	}
	held, err := middleware.New(middleware.Config{Client: c, Action: "export", Reserve: true, TTL: 30 * time.Second})
	if err != nil {
		return nil, err
	}
	e := echo.New()
	e.GET("/things/:id", thing, echomw.New(counted))
	e.GET("/search", search, echomw.New(counted))
	e.POST("/exports", export, echomw.New(held))
	return e, nil
}

func thing(c echo.Context) error { return c.String(http.StatusOK, "thing "+c.Param("id")+"\n") }

func search(c echo.Context) error { return c.String(http.StatusOK, "found nothing\n") }

// export holds its slot until it returns. The request's context ends when the hold is lost; an
// answer below 500 commits the hold, and an error releases it.
func export(c echo.Context) error {
	hold, _ := middleware.HoldFrom(c.Request().Context())
	if err := c.Request().Context().Err(); err != nil {
		return err
	}
	return c.String(http.StatusOK, fmt.Sprintf("exported under slot %d, fence %d\n", hold.Slot(), hold.Fence()))
}
