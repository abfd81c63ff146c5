package main

import (
	"fmt"
	"net/netip"

	"github.com/holdfast-dev/holdfast/httpapi"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/webhooks"
)

// webhookNetworks are those that --webhook-allow names.
func (c *serverConfig) webhookNetworks() (all []netip.Prefix, err error) {
	for _, text := range c.WebhookAllow {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			return nil, fmt.Errorf("%q is no network such as 10.1.0.0/16", text)
		}
		all = append(all, p)
	}
	return all, nil
}

// buildWebhooks makes what sends events.
func (s *site) buildWebhooks(replica string) error {
	allow, err := s.cfg.webhookNetworks()
	if err != nil {
		return err
	}
	s.webhooks, err = webhooks.New(webhooks.Config{
		Store: s.store, Sessions: sessions{s.session}, Events: s.events, Encode: httpapi.EncodeEvent, Now: s.app.now,
		Policy: webhooks.NewPolicy(allow), Replica: replica, Log: s.log, Metrics: s.metrics,
	})
	return err
}

// told hears what the store tells, after the desk.
func (s *site) told(u reserve.Update) {
	s.events.Tell(u)
	s.webhooks.Tell(u)
}
