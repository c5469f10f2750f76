//! The live loop. Time and host are given to it, so that all of it runs in simulation.
